# mpib_manual(COMPONENT PAGES...): make manual pages from NAME.SECTION.scd of
# this folder and compress them as Debian requires. Without scdoc, do nothing.
find_program(SCDOC scdoc)

function(mpib_manual component)
	if(NOT SCDOC)
		return()
	endif()
	set(all)
	foreach(page ${ARGN})
		set(out ${CMAKE_CURRENT_BINARY_DIR}/${page})
		add_custom_command(OUTPUT ${out}.gz
			COMMAND sh -c "\"$1\" <\"$2\" >\"$3\"" sh ${SCDOC}
				${CMAKE_CURRENT_SOURCE_DIR}/${page}.scd ${out}
			COMMAND gzip -9nkf ${out}
			DEPENDS ${page}.scd VERBATIM)
		list(APPEND all ${out}.gz)
		string(REGEX MATCH "[0-9]$" section ${page})
		install(FILES ${out}.gz
			DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
			COMPONENT ${component})
	endforeach()
	file(RELATIVE_PATH here ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
	string(MAKE_C_IDENTIFIER ${here}_${component} target)
	add_custom_target(${target} ALL DEPENDS ${all})
endfunction()

# mpib_manual_also(COMPONENT PAGE NAMES...): install other names of a page as
# links to it.
function(mpib_manual_also component page)
	if(NOT SCDOC)
		return()
	endif()
	string(REGEX MATCH "[0-9]$" section ${page})
	foreach(name ${ARGN})
		set(link ${CMAKE_CURRENT_BINARY_DIR}/${name}.${section}.gz)
		file(CREATE_LINK ${page}.gz ${link} SYMBOLIC)
		install(FILES ${link}
			DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
			COMPONENT ${component})
	endforeach()
endfunction()
