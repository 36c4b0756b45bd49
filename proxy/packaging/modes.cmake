# Make the directories of a package readable by all users, even if the umask of the
# build is narrow: cmake makes parent directories with the umask. Skip links, which
# may lead to another package.
file(GLOB_RECURSE paths LIST_DIRECTORIES true "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(path "${CPACK_TEMPORARY_DIRECTORY}" ${paths})
	if(IS_DIRECTORY "${path}" AND NOT IS_SYMLINK "${path}")
		file(CHMOD "${path}" DIRECTORY_PERMISSIONS
			OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
			WORLD_READ WORLD_EXECUTE)
	endif()
endforeach()
