# Included when something is installed, with FROM, the source tree, and TO, a folder
# of the build: write the documents there with links that hold where they are
# installed. What is not installed loses its link and keeps its text.
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
