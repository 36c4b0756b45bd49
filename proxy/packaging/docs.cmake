# Run at installation. Write the documents of the source tree FROM to TO, a folder of
# the build, with links that are valid where the documents are installed. If the file of
# a link is not installed, only the link's text stays.
file(GLOB_RECURSE pages RELATIVE ${FROM} ${FROM}/docs/*.md)
foreach(page README.md SECURITY.md ${pages})
	file(READ ${FROM}/${page} text)
	string(REGEX REPLACE "\\]\\(((\\.\\./)*)proxy/packaging/examples/"
		"](\\1examples/" text "${text}")
	string(REGEX REPLACE "\\]\\(((\\.\\./)*)proxy/packaging/helm/"
		"](\\1examples/helm/" text "${text}")
	string(REGEX REPLACE "\\]\\(((\\.\\./)*)CHANGELOG\\.md" "](\\1NEWS.gz"
		text "${text}")
	set(absent "(\\.\\./)*(CONTRIBUTING\\.md|(tests|proxy|bench|cmake)/[^)]*)")
	string(REGEX REPLACE "\\[([^][]*)\\]\\(${absent}\\)" "\\1"
		text "${text}")
	file(WRITE ${TO}/${page} "${text}")
endforeach()
