# Reads Markdown files. Prints links and file names that lead nowhere. -v
# tree=FILE lists all files of the tree.
BEGIN {
	while ((getline line < tree) > 0) {
		there[line] = 1
		n = split(line, part, "/")
		path = part[n]
		tail[path] = 1
		for (i = n - 1; i > 0; i--) {
			path = part[i] "/" path
			tail[path] = 1
		}
		for (path = line; sub(/\/[^\/]*$/, "", path); )
			folder[path] = 1
		top[part[1]] = 1
	}
}

# Return the anchor that GitHub makes from a heading.
function anchor(text) {
	text = tolower(text)
	gsub(/[^a-z0-9_ -]/, "", text)
	gsub(/ /, "-", text)
	return text
}

function load(file,   text, code, name) {
	if (file in loaded)
		return
	loaded[file] = 1
	while ((getline text < file) > 0) {
		if (text ~ /^ *```/)
			code = !code
		if (code || text !~ /^#+ /)
			continue
		sub(/^#+ +/, "", text)
		name = anchor(text)
		heading[file, name] = 1
		if ((file, name) in met)
			heading[file, name "-" met[file, name]] = 1
		met[file, name]++
	}
	close(file)
}

function plain(path) {
	gsub(/\/\.\//, "/", path)
	sub(/^\.\//, "", path)
	while (sub(/[^\/.]+\/\.\.\/?/, "", path))
		;
	sub(/\/$/, "", path)
	return path
}

function bad(what) {
	print FILENAME ":" FNR ": " what
}

function check_link(target,   file, name) {
	if (target ~ /^[a-z]+:/)
		return
	name = target
	if (!sub(/^[^#]*#/, "", name))
		name = ""
	sub(/#.*/, "", target)
	file = FILENAME
	if (target != "") {
		file = here target
		file = plain(file)
		if (!(file in there) && !(file in folder)) {
			bad("no file " target)
			return
		}
	}
	if (name != "" && file ~ /\.md$/) {
		load(file)
		if (!((file, name) in heading))
			bad("no heading #" name " in " file)
	}
}

# Match a name with the shell's stars and braces.
function matches(name,   i, head, rest, alt, n, part, ok, path) {
	if (match(name, /\{[^{}]*\}/)) {
		head = substr(name, 1, RSTART - 1)
		rest = substr(name, RSTART + RLENGTH)
		alt = substr(name, RSTART + 1, RLENGTH - 2)
		n = split(alt, part, ",")
		for (i = 1; i <= n; i++)
			if (!matches(head part[i] rest))
				return 0
		return 1
	}
	if (index(name, "*") == 0)
		return (name in tail) || (name in folder) || (name ".c") in tail
	gsub(/[.+]/, "\\\\&", name)
	gsub(/\*/, "[^/]*", name)
	for (path in tail)
		if (path ~ ("^" name "$"))
			return 1
	return 0
}

function check_name(name,   first) {
	if (name !~ /^[A-Za-z0-9_.{},*\/-]+$/ || name ~ /^([\/.*-]|build)/)
		return
	if (name ~ /\/[A-Z]+(\/|$)/ && !(name in tail))
		return # NAME and the like stand for what a reader has
	sub(/\/$/, "", name)
	first = name
	sub(/\/.*/, "", first)
	if ((first in top && name ~ /\//) || name ~ /^(attack|fuzz|test)_[a-z]/ || name ~ /[a-z]\.(c|h|sh|awk|md|cmake|scd)$/)
		if (!matches(name))
			bad("no file `" name "`")
}

FNR == 1 {
	code = 0
	here = FILENAME
	if (!sub(/[^\/]*$/, "", here))
		here = ""
}
/^ *```/ { code = !code }
code { next }
{
	text = $0
	while (match(text, /\]\([^() ]+\)/)) {
		check_link(substr(text, RSTART + 2, RLENGTH - 3))
		text = substr(text, RSTART + RLENGTH)
	}
	n = split($0, piece, "`")
	for (i = 2; i <= n; i += 2)
		check_name(piece[i])
}
