#!/usr/bin/env bash
# setup.sh SETUP: test SETUP (cmake/setup-debian.sh) on a system that lacks
# packages. SETUP must install exactly the missing packages. If a package that
# only tests need does not exist on this system, SETUP must skip the package and
# print a line about it. Without root, SETUP must print the command to run. If
# apt has no lists of packages, SETUP must not report packages as unknown. The
# test replaces dpkg-query, apt-get, apt-cache and id.
. "$(dirname "$0")/../../support/lines.sh"
setup=$1
. "$(dirname "$0")/../../support/workdir.sh"
export STAND_IN=$dir
mkdir "$dir/bin"
# Like the real dpkg-query, fail for a package that is not installed.
cat >"$dir/bin/dpkg-query" <<'END_OF'
#!/bin/sh
for package; do :; done
grep -qxF "$package" "$STAND_IN/installed" || exit 1
echo install ok installed
END_OF
cat >"$dir/bin/apt-get" <<'END_OF'
#!/bin/sh
[ "$1" = install ] || exit 0
for word; do
	case $word in install | -*) ;; *) echo "$word" ;; esac
done >"$STAND_IN/asked"
END_OF
cat >"$dir/bin/apt-cache" <<'END_OF'
#!/bin/sh
[ "$2" = shellcheck ] || [ -e "$STAND_IN/no-lists" ] || echo "$2 | 1 | a list"
END_OF
cat >"$dir/bin/id" <<'END_OF'
#!/bin/sh
cat "$STAND_IN/uid"
END_OF
chmod +x "$dir"/bin/*
export PATH=$dir/bin:$PATH

lists=$(dirname "$setup")
sort -u "$lists/debian-packages.txt" "$lists/debian-packages-tests.txt" >"$dir/all"
grep -qxF shellcheck "$dir/all" || fail "the list of tests has no shellcheck"

echo 0 >"$dir/uid"
: >"$dir/installed"
"$setup" tests >"$dir/said" 2>&1 || fail "nothing is installed: $(cat "$dir/said")"
grep -qxF 'setup: there is no package shellcheck here' "$dir/said" ||
	fail "no line about shellcheck: $(cat "$dir/said")"
diff <(grep -vxF shellcheck "$dir/all") <(sort -u "$dir/asked") ||
	fail "the missing packages were not the ones requested"

grep -vxF -e cmake -e shellcheck "$dir/all" >"$dir/installed"
"$setup" tests >"$dir/said" 2>&1 || fail "one is missing: $(cat "$dir/said")"
[ "$(cat "$dir/asked")" = cmake ] || fail "asked for $(cat "$dir/asked")"

rm "$dir/asked"
echo 1000 >"$dir/uid"
"$setup" tests >"$dir/said" 2>&1 && fail "no root, and cmake is missing"
has 'apt-get install cmake$' <"$dir/said" || fail "no remedy: $(cat "$dir/said")"

grep -vxF -e chromium -e curl "$dir/all" >"$dir/installed"
: >"$dir/no-lists"
"$setup" tests >"$dir/said" 2>&1 && fail "no root, no lists, and two are missing"
has 'there is no package' <"$dir/said" && fail "without lists: $(cat "$dir/said")"
has 'apt-get install chromium curl$' <"$dir/said" || fail "no remedy: $(cat "$dir/said")"
rm "$dir/no-lists"

cp "$dir/all" "$dir/installed"
"$setup" tests >"$dir/said" 2>&1 || fail "all is installed: $(cat "$dir/said")"
[ ! -s "$dir/said" ] && [ ! -e "$dir/asked" ] || fail "all is installed, and it asks"
exit "$failed"
