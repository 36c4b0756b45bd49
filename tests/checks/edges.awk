# Prints each #include of the sources as an edge between rooms: "FILE ROOM
# HEADER ROOM" for "..." and <mpib/>, "FILE ROOM <system header>" for others.
# -v tree=FILE lists all files of the tree.
BEGIN {
	while ((getline line < tree) > 0)
		there[line] = 1
	n = split("include runtime proxy plugin bench tests/support tests tests/unit", root, " ")
}

function room(path) {
	sub(/\/?[^\/]*$/, "", path)
	sub(/^include\/mpib$/, "include", path)
	return path
}

function plain(path) {
	while (sub(/[^\/]+\/\.\.\//, "", path))
		;
	return path
}

function find(header, file,   i, at) {
	at = plain(room(file) "/" header)
	if (at in there)
		return at
	for (i = 1; i <= n; i++)
		if ((root[i] "/" header) in there)
			return root[i] "/" header
	return ""
}

/^#[ \t]*include[ \t]*["<]/ {
	header = $0
	sub(/^[^"<]*["<]/, "", header)
	sub(/[">].*/, "", header)
	at = $0 ~ /"/ || header ~ /^mpib\// ? find(header, FILENAME) : ""
	if (at != "")
		print FILENAME, room(FILENAME), at, room(at)
	else
		print FILENAME, room(FILENAME), "<" header ">"
}
