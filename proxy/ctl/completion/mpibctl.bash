# Completion for mpibctl(1); the installed mpibctl lists its own commands.
_mpibctl_values() { # list possible values of the argument of this name
	local ctl=$1

	case $2 in
	RAIL) "$ctl" rails -o label ;;
	CLIENT | '[CLIENT]' | 'CLIENT[.CONN]') "$ctl" clients -o id ;;
	'[CLIENT.CONN]') "$ctl" why -o client,index | tr '\t' . ;;
	KEY) "$ctl" config -o section,key | tr '\t' . ;;
	'[NAME]') "$ctl" hist -o name ;;
	WHAT...) echo weight= limit= ;;
	'[WHY...]') ;;
	FILE | '[PATH]') compgen -f ;;
	esac 2>/dev/null
}

_mpibctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local i words=() list args

	COMPREPLY=()
	case $before in
	-s | --run-dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
		;;
	-o | --output | -w | --watch)
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | -o | -w | --run-dir | --output | --watch) ((i++)) ;;
		-*) ;;
		*) words+=("${COMP_WORDS[i]}") ;;
		esac
	done
	list=$("${COMP_WORDS[0]}" --commands 2>/dev/null) || return
	if [[ $word == -* ]]; then
		list=$(grep ^-- <<<"$list")
	elif [ ${#words[@]} -eq 0 ]; then
		list="$(grep -v ^-- <<<"$list" | cut -d' ' -f1 | uniq) help"
	elif [ "${words[0]}" = help ]; then
		list=$(grep -v ^-- <<<"$list" | cut -d' ' -f1 | uniq)
	elif [ ${#words[@]} -eq 1 ]; then
		list=$(sed -n "s/^${words[0]} \([a-z]*\) .*/\1/p" <<<"$list")
	else
		read -ra args < <(sed -n "s/^${words[0]} ${words[1]} //p" <<<"$list")
		i=${args[${#words[@]} - 2]-}
		if [ "$i" = '[PATH]' ]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
		fi
		list=$(_mpibctl_values "${COMP_WORDS[0]}" "$i")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$list" -- "$word")
}
complete -F _mpibctl mpibctl
