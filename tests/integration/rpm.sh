#!/usr/bin/env bash
# rpm.sh BUILD SOURCE: rpmbuild must make the six packages of the spec file from
# this build. The packages must contain the same files as the Debian packages.
# Any user must be able to run the unpacked programs. The plugin's package must
# have no unnecessary dependencies.
set -uo pipefail
. "$(dirname "$0")/../support/lines.sh"
build=$(realpath "$1") source=$(realpath "$2")
if ! command -v rpmbuild >/dev/null; then
	echo "SKIPPED: rpm packages: there is no rpmbuild (apt-get install rpm)"
	exit 77
fi
. "$(dirname "$0")/../support/workdir.sh"
version=$("$build/bench/mpib-perf" --version | sed 's/.* //')
spec=$source/proxy/packaging/rpm/mpib.spec
grep -qx "%{!?version_mpib: %define version_mpib $version}" "$spec" ||
	fail "the spec does not have version $version"
# Use --nodeps, because the build requirements name packages of RPM systems.
rpmbuild -bb --nodeps --define "_topdir $dir" --define "prebuilt $build" \
	--dbpath "$dir/db" "$spec" >"$dir/log" 2>&1 ||
	fail "rpmbuild: $(tail -n 20 "$dir/log")"
for name in mpib-proxy libnccl-net-mpib mpib-tools libmpib mpib-devel \
	mpib-softverbs; do
	rpm=$(find "$dir/RPMS" -name "$name-$version-*.rpm")
	[ -n "$rpm" ] || { fail "there is no package $name"; continue; }
	rpm2cpio "$rpm" | (cd "$dir" && mkdir -p all && cd all && cpio -idmu) \
		2>/dev/null
	rpm -qp --requires --dbpath "$dir/db" "$rpm" >"$dir/$name" 2>/dev/null
done
"$dir/all/usr/bin/mpibctl" --version | has "$version" ||
	fail "mpibctl does not run"
"$dir/all/usr/sbin/mpib-proxy" --config /dev/null --sout soft:127.0.0.1 \
	--sup soft:127.0.1.1 --check-config >/dev/null 2>&1 || fail "mpib-proxy does not run"
for file in lib/systemd/system/mpib-proxy.service include/mpib/client.h \
	lib/libmpib.a lib/libmpib.so lib/libmpib.so.0 lib/libmpib-vqp.a include/mpib/vqp.h share/doc/mpib-proxy/README.md \
	share/doc/mpib-proxy/docs/operating.md; do
	[ -s "$dir/all/usr/$file" ] || fail "no /usr/$file"
done
"$source/tests/unit/plugin/exports.sh" "$dir/all/usr/lib/libnccl-net-mpib.so" ||
	fail "the plugin in the package"
grep -v '^rpmlib(\|^libc\.so\.6\|^ld-linux\|^rtld(' \
	"$dir/libnccl-net-mpib" && fail "the plugin requires more than the C library"
grep -q '^libmpib(' "$dir/mpib-devel" ||
	fail "mpib-devel does not require libmpib"
rpm -qp --configfiles --dbpath "$dir/db" "$dir"/RPMS/*/mpib-proxy-*.rpm |
	has -x /etc/mpib/mpib.conf || fail "mpib.conf is not marked as a configuration file"
grep -q '^libibverbs\.so' "$dir/mpib-proxy" ||
	fail "the proxy does not require libibverbs"
exit "$failed"
