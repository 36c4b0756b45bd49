# The environment variables that some part of mpib reads: the proxy's settings,
# from the table in proxy/config/settings.c, and variables read with getenv().
BEGIN {
	FS = "\""
	print "#include <stddef.h>\n\n#include \"base/environ.h\"\n"
	print "const char *const mpib_environ_names[] = {"
}

# Print the previous name. It is held back because a CHOICE_AS line may replace
# it.
function name(text) {
	if (held)
		printf "\t\"%s\",\n", toupper(held)
	held = "mpib_" text
}

/^\t[{] "/ { name($2 "_" $4) }
/^\tQUOTA/ { name("quota_" $2) }
/^\t  CHOICE_AS/ { held = $4 }

END {
	name("start")
	name("soft_devices")
	name("soft_engine")
	name("soft_faults")
	name("soft_limits")
	name("soft_port_base")
	name("")
	print "\tNULL,\n};"
}
