# Completion for mpibctl(1); the installed mpibctl lists its own commands.
_mpibctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local i noun= words= list

	COMPREPLY=()
	case $before in
	-s | --run-dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
		;;
	--textfile)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	-o | --output | -w | --watch)
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | -o | -w | --run-dir | --output | --watch | --textfile) ((i++)) ;;
		-*) ;;
		*) [ -n "$noun" ] && words+=" ${COMP_WORDS[i]}" || noun=${COMP_WORDS[i]} ;;
		esac
	done
	list=$("${COMP_WORDS[0]}" --commands 2>/dev/null) || return
	if [[ $word == -* ]]; then
		words="--json --output --csv --watch --textfile --strict --quiet --run-dir --help --version"
	elif [ -z "$noun" ]; then
		words="$(cut -d' ' -f1 <<<"$list") help"
	elif [ "$noun" = help ]; then
		words=$(cut -d' ' -f1 <<<"$list")
	elif [ -z "$words" ]; then
		words=$(sed -n "s/^$noun \([a-z]*\) .*/\1/p" <<<"$list")
	else
		case "$noun$words" in
		"rails drain" | "rails resume" | "fault end") words="SOUT SUP" ;;
		"fault play") words="rate= delay= black-hole link-down qp-kill gone" ;;
		"fault play "*) words="SOUT SUP" ;;
		"log set") words="error warn info debug" ;;
		"clients kick" | "clients share" | "conns show")
			words=$("${COMP_WORDS[0]}" clients -o id 2>/dev/null)
			;;
		"config set")
			words=$("${COMP_WORDS[0]}" config -o section,key \
				2>/dev/null | tr '\t' .)
			;;
		*) words= ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _mpibctl mpibctl
