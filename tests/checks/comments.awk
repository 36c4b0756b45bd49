# Prints the names of C files in comments that do not exist in the tree. -v
# tree=FILE lists all files of the tree. Headers of the system are written as
# <NAME>. They may also begin with linux/ or sys/, or with fs/ for the kernel's
# own sources.
BEGIN {
	while ((getline line < tree) > 0) {
		sub(/.*\//, "", line)
		there[line] = 1
	}
}

# Return the comments of a line. `open` means that a comment continues on the
# next line.
function comments(line,   text, at) {
	text = ""
	while (line != "") {
		at = index(line, open ? "*/" : "/*")
		if (open)
			text = text " " (at ? substr(line, 1, at - 1) : line)
		if (!at)
			break
		line = substr(line, at + 2)
		open = !open
	}
	return text
}

FNR == 1 { open = 0 }
{
	text = comments($0)
	gsub(/<[^<>]*>/, "", text)
	n = split(text, word, /[^A-Za-z0-9_.\/]+/)
	for (i = 1; i <= n; i++) {
		name = word[i]
		sub(/\.$/, "", name)
		if (name !~ /^[A-Za-z0-9_\/]+\.[ch]$/ || name ~ /^(linux|sys|fs)\//)
			continue
		sub(/.*\//, "", name)
		if (!(name in there))
			print FILENAME ":" FNR ": a comment names no file " name
	}
}
