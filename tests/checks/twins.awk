# Reads lines "FILE FIRST LAST FILE FIRST LAST". Prints the pairs that have most
# of their lines in common, apart from blanks. -v known=FILE lists pairs of
# files that may be similar.
BEGIN {
	while ((getline line < known) > 0) {
		if (line ~ /^#|^$/)
			continue
		split(line, word, " ")
		may[word[1], word[2]] = 1
	}
}

function load(file,   n, text) {
	if (file in lines)
		return
	while ((getline text < file) > 0) {
		gsub(/[ \t]+/, "", text)
		source[file, ++n] = text
	}
	close(file)
	lines[file] = n
}

# Return the number of lines that both runs have. Lines of fewer than 4
# characters, such as a brace, do not count. Set `told` to the number of lines
# in run a that count.
function common(a, a1, a2, b, b1, b2,   i, left, same) {
	for (i = b1; i <= b2; i++)
		left[source[b, i]]++
	told = same = 0
	for (i = a1; i <= a2; i++) {
		if (length(source[a, i]) < 4)
			continue
		told++
		if (left[source[a, i]]-- > 0)
			same++
	}
	return same
}

{
	load($1)
	load($4)
	same = common($1, $2, $3, $4, $5, $6)
	if (same < 8 || same < told * 0.7 || ($1, $4) in may || ($4, $1) in may)
		next
	print $1 ":" $2 "-" $3 " and " $4 ":" $5 "-" $6 ": " same " lines"
}
