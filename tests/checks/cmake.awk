# Reads the CMake files of include, runtime and plugin. Prints where a file
# names a room above its own, whose sources it would use.
FNR == 1 {
	root = FILENAME
	sub(/\/.*/, "", root)
	above = root == "plugin" ? "proxy|bench|tests" : "plugin|proxy|bench|tests"
}

{
	line = $0
	sub(/#.*/, "", line)
	if (match(line, "(^|[^A-Za-z0-9_.-])(" above ")/")) {
		line = substr(line, RSTART, RLENGTH)
		gsub(/^[^a-z]|\/$/, "", line)
		print FILENAME ":" FNR ": no arrow from " root " to " line
	}
}
