# Warnings, hardening, sanitizers: what every target of the tree is compiled with.

option(USHER_WERROR "Treat warnings as errors" OFF)
option(USHER_COVERAGE "Instrument for gcov" OFF)
set(USHER_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

add_compile_options(
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
	-Wcast-qual -Wwrite-strings -Wformat=2 -Wconversion -Wvla -Wundef -Wpointer-arith
	-Wimplicit-fallthrough -Wnull-dereference -Wno-missing-field-initializers
	-fno-common -fno-strict-aliasing -fstack-protector-strong)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
	# -Wnull-dereference guesses at what cleanup attributes see; clang's analyzer judges that better.
	add_compile_options(-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wno-null-dereference)
endif()
if(USHER_WERROR)
	add_compile_options(-Werror)
endif()

add_compile_definitions(_GNU_SOURCE)
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)

if(USHER_SANITIZE)
	add_compile_options(-fsanitize=${USHER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
	add_link_options(-fsanitize=${USHER_SANITIZE})
	add_compile_definitions(USHER_SANITIZED)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
	add_compile_options(-D_FORTIFY_SOURCE=2)
endif()
if(USHER_FUZZ)
	# Without it the fuzzer sees only its own target, and none of the code that it is about.
	add_compile_options(-fsanitize=fuzzer-no-link)
	add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(USHER_COVERAGE)
	add_compile_options(--coverage)
	add_link_options(--coverage)
endif()

# assert() is for our own mistakes and stays on in releases.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
