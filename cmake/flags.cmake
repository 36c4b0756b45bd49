# Every target links mpib_flags PRIVATE; nothing sets global flags.
add_library(mpib_flags INTERFACE)
target_compile_definitions(mpib_flags INTERFACE _GNU_SOURCE)
target_compile_options(mpib_flags INTERFACE
	-Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wcast-qual -Wundef
	-Wwrite-strings
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>)
if(MPIB_WERROR)
	target_compile_options(mpib_flags INTERFACE -Werror)
endif()

# A plain if(): a generator expression would split "address,undefined".
if(MPIB_SANITIZE)
	target_compile_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE} -fno-omit-frame-pointer
		-fno-sanitize-recover=all
		# At -O1 it is often wrong; the plain build has it.
		$<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
	target_link_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE})
else()
	# What was resolved at start cannot be pointed elsewhere later.
	target_link_options(mpib_flags INTERFACE LINKER:-z,relro,-z,now)
endif()

# Coverage for libFuzzer in everything; its main() only in the targets.
if(MPIB_FUZZ)
	target_compile_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
	target_link_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
