# cmake -DSETTINGS=settings.c -DOUT=file -P environ.cmake: the names that the
# proxy's settings have in the environment, as strings for a list in C. A test
# compares them with what the proxy itself says.
file(READ ${SETTINGS} text)
string(REGEX REPLACE ".*struct mpib_setting mpib_settings\\[\\]" "" text "${text}")
set(blank "[ \t\n]*")
set(word "\"([a-z_]+)\",${blank}")
set(names "")

function(mpib_names pattern form)
	string(REGEX MATCHALL "${pattern}" entries "${text}")
	foreach(entry ${entries})
		string(REGEX REPLACE "${pattern}" "${form}" name "${entry}")
		string(TOUPPER ${name} name)
		string(APPEND names "\"${name}\",\n")
	endforeach()
	set(names "${names}" PARENT_SCOPE)
endfunction()

mpib_names("{${blank}${word}${word}" "MPIB_\\1_\\2")
mpib_names("QUOTA\\(${word}" "MPIB_QUOTA_\\1")
mpib_names("\"(MPIB_[A-Z_]+)\"" "\\1") # those that have another name
file(WRITE ${OUT} "${names}")
