# Compares the edges that edges.awk prints with the rules of -v arrows=FILE.
# Prints each edge that no rule allows, and each exception of FILE ("! FILE
# HEADER") that no edge needs.
BEGIN {
	while ((getline line < arrows) > 0) {
		sub(/#.*/, "", line)
		if (split(line, word, " ") == 3 && word[1] == "!")
			excepted[word[2], word[3]] = 1
		if (line !~ /:/)
			continue
		name = line
		sub(/:.*/, "", name)
		sub(/[^:]*:/, "", line)
		order[name] = ++rooms
		n = split(line, word, " ")
		foreign = 0
		for (i = 1; i <= n; i++) {
			if (word[i] == "+") {
				foreign = 1
			} else if (foreign) {
				package[name, ++packages[name]] = word[i]
			} else {
				may[name, word[i]] = 1
				if (word[i] != "*" && !(word[i] in order))
					print arrows ": " name " stands above " word[i]
			}
		}
	}
}

# Return the room of arrows.txt to which a file or folder belongs.
function line_of(path) {
	while (path != "" && !(path in order))
		if (!sub(/\/[^\/]*$/, "", path))
			path = ""
	return path
}

# Return whether this is a header of the C library or the kernel. Every room may
# include these.
function is_libc(header) {
	return header ~ /^(sys|linux|arpa|netinet|net|asm)\// ||
		header ~ /^(assert|ctype|dirent|dlfcn|endian|errno|fcntl|fnmatch|ftw|getopt|glob|grp|ifaddrs|inttypes|langinfo|limits|link|locale|malloc|math|netdb|poll|pthread|pwd|sched|setjmp|signal|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|syslog|termios|time|unistd|wchar)\.h$/
}

# Return whether a room may include a package's header. A name may end with a
# star.
function is_package(room, header,   i, name) {
	for (i = 1; i <= packages[room]; i++) {
		name = package[room, i]
		if (name == header ||
		    (sub(/\*$/, "", name) && index(header, name) == 1))
			return 1
	}
	return 0
}

{
	from = line_of($1)
	if (from == "") {
		print $1 ": its room has no line in arrows.txt"
	} else if ((from, "*") in may) {
		next
	} else if (NF == 3) {
		header = substr($3, 2, length($3) - 2)
		if (!is_libc(header) && !is_package(from, header))
			print $1 ": " from " may not include " $3
	} else {
		to = line_of($3)
		if (to == from || (from == $2 && from == $4) || (from, to) in may)
			next
		if (($1, $3) in excepted)
			needed[$1, $3] = 1
		else
			print $1 ": no arrow from " from " to " to " (" $3 ")"
	}
}

END {
	for (edge in excepted)
		if (NR > 0 && !(edge in needed)) {
			sub(SUBSEP, " ", edge)
			print arrows ": nothing needs ! " edge
		}
}
