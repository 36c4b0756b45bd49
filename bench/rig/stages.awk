# Sum up callgrind's output (--compress-strings=no --compress-pos=no) by stage of a
# message. Arguments: -v stages=bench/rig/stages.txt, the source files, then
# callgrind's output. Costs are by source line, so an inlined function counts for the
# stage of its own source. A function of the stage "caller" counts for the function
# that calls it, or into which it is inlined. Prints lines "STAGE INSTRUCTIONS", or
# with -v functions=1 the functions of each stage.
BEGIN {
	while ((getline line < stages) > 0) {
		if (line ~ /^#|^$/)
			continue
		split(line, word)
		rule_file[++rules] = word[1]
		rule_fn[rules] = word[2]
		rule_stage[rules] = word[3]
	}
}

function short(path) {
	if (match(path, /(runtime|include\/mpib|bench)\/[^.].*$/))
		return substr(path, RSTART)
	sub(/.*\//, "", path)
	return path
}

# Find the functions in the sources. A function begins at a line that starts in
# column 1 and has a "(", and ends at a "}" in column 1.
FNR == 1 {
	is_source = FILENAME ~ /\.[ch]$/
	source = short(FILENAME)
	current = ""
}
is_source && /^[a-z_].*\(/ {
	current = $0
	sub(/\(.*/, "", current)
	sub(/.*[ *]/, "", current)
}
is_source {
	if (current != "")
		owner[source, FNR] = current
	if (/^}/)
		current = ""
	next
}

/^fl=/ { fn_file = short(substr($0, 4)) }
/^fl=/ || /^fi=/ || /^fe=/ { file = short(substr($0, 4)); next }
/^ob=/ { object = short(substr($0, 4)); next }
/^fn=/ { fn = substr($0, 4); sub(/\.(constprop|isra|part|cold).*/, "", fn); next }
/^cfn=/ { called = substr($0, 5); next }
/^calls=/ {
	getline
	if (stage_of("", called) == "caller")
		cost[fn_file " " fn] += $2
	next
}
/^[0-9]/ {
	name = ((file, $1) in owner) ? owner[file, $1] : fn
	where = file == "???" || file !~ /\// ? object : file
	if (stage_of(where, name) != "caller")
		cost[where " " name] += $2
	else if (stage_of("", fn) != "caller")
		cost[fn_file " " fn] += $2
}

function stage_of(where, name,   i) {
	for (i = 1; i <= rules; i++)
		if (where ~ ("^" rule_file[i] "$") &&
		    name ~ ("^" rule_fn[i] "$"))
			return rule_stage[i]
	return "other"
}

END {
	for (k in cost) {
		split(k, part, " ")
		s = stage_of(part[1], part[2])
		sum[s] += cost[k]
		if (functions)
			print s, k, cost[k]
	}
	if (!functions)
		for (s in sum)
			print s, sum[s]
}
