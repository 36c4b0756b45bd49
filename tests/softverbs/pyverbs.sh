#!/usr/bin/env bash
# pyverbs.sh LIBRARY GID-INDEX
#
# Run rdma-core's own tests on a device of the software HCA. Debian's package
# python3-pyverbs contains these tests among its documentation. The tests skip
# what the device does not support. No test may fail, and at least $least must
# pass.
set -uo pipefail
lib=$1 gid=$2
. "$(dirname "$0")/../support/scratch.sh"
. "$(dirname "$0")/common.sh"
from=/usr/share/doc/rdma-core/tests least=36
python=/usr/bin/python3

skip() {
	echo "SKIPPED: $1"
	exit 77
}
"$python" -c 'import pyverbs' 2>/dev/null ||
	skip "pyverbs is not installed; Debian has it in python3-pyverbs"
[ -e "$from/__init__.py" ] ||
	skip "$from does not exist: packages are installed without documentation"

cp -r "$from" "$dir/tests" && gunzip -qr "$dir/tests" || exit 1
cd "$dir" || exit 1
PYTHONDONTWRITEBYTECODE=1 LD_PRELOAD=$preload timeout 200 \
	"$python" tests/run_tests.py --dev soft0 --port 1 --gid "$gid" -v \
	>out 2>&1
rc=$?
ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' out)
skipped=$(sed -n 's/^OK (skipped=\([0-9]*\))$/\1/p' out)
passed=$((${ran:-0} - ${skipped:-0}))
if [ "$rc" -ne 0 ] || [ -z "$skipped" ] || [ "$passed" -lt "$least" ] ||
	grep -E 'mpib: ' out; then
	cat out
	echo "ended with $rc; $passed of ${ran:-no} tests passed," \
		"$least should"
	exit 1
fi
echo "$passed passed, $skipped skipped"
