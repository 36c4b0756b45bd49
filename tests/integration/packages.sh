#!/usr/bin/env bash
# packages.sh BUILD: test the packages that cpack makes of this build. Every
# program must have a manual page. The packages are installed in a scratch copy
# of this machine's root. In this copy, the proxy must run as its own user, and
# the tools must find the proxy. After a purge, no file may remain. The test
# does not change the machine itself. The packages are built under umask 077,
# because the modes of the packed files must not depend on the umask.
set -uo pipefail
. "$(dirname "$0")/../support/lines.sh"
umask 022
build=$(realpath "$1")
. "$(dirname "$0")/../support/workdir.sh"

if ! command -v dpkg-shlibdeps >/dev/null; then
	echo "SKIPPED: packages: this is not Debian (no dpkg-shlibdeps)"
	exit 77
fi
mkdir "$dir/debs"
(umask 077 && cd "$build" && cpack -G DEB -D CPACK_OUTPUT_FILE_PREFIX="$dir/debs") \
	>"$dir/cpack" 2>&1 || { cat "$dir/cpack"; exit 1; }
for name in mpib-proxy libnccl-net-mpib mpib-tools libmpib0 libmpib-dev \
	mpib-softverbs
do
	deb=$(echo "$dir/debs/${name}"_*.deb)
	[ -f "$deb" ] || { fail "there is no package $name"; continue; }
	dpkg-deb -x "$deb" "$dir/all"
	dpkg-deb -c "$deb" | grep -vE '^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x|l)' &&
		fail "$name has files that only the builder can read"
	[[ "$(dpkg-deb -f "$deb" Depends)" == *libc6* ]] ||
		[ "$name" = libmpib-dev ] || fail "$name depends on nothing"
	[ -s "$dir/all/usr/share/doc/$name/copyright" ] ||
		fail "$name has no licence"
	[ -s "$dir/all/usr/share/doc/$name/NEWS.gz" ] ||
		fail "$name has no list of changes"
	zcat "$dir/all/usr/share/doc/$name/changelog.gz" |
		dpkg-parsechangelog -l - -S Version |
		has -x "$(dpkg-deb -f "$deb" Version)" ||
		fail "$name has no changelog in Debian's format for its version"
done
[ "$(find "$dir/debs" -name '*.deb' | wc -l)" -eq 6 ] || fail "another package"
files=$(cd "$dir/all" && find . -type f | sort)
for document in README.md SECURITY.md docs/operating.md docs/picture.svg \
	examples/helm/mpib-proxy/files/mpib-alerts.yml; do
	[ -s "$dir/all/usr/share/doc/mpib-proxy/$document" ] ||
		fail "mpib-proxy has no $document"
done
documents=$dir/all/usr/share/doc/mpib-proxy
while IFS=: read -r page link; do
	[ -e "$(dirname "$page")/$link" ] || fail "${page#"$documents"/} leads to no $link"
done < <(grep -roE '\]\([^)#:]+' "$documents" --include='*.md' | sed 's/](//')
here=$(dirname "$0")
"$here/../../cmake/plugin-tarball.sh" "$build/plugin/libnccl-net-mpib.so" 1.2.3 \
	"$dir" >"$dir/log" 2>&1 && tar -C "$dir" -xf "$dir"/libnccl-*.tar.xz ||
	fail "the plugin's tarball: $(<"$dir/log")"
"$here/../unit/plugin/exports.sh" \
	"$dir/libnccl-net-mpib-1.2.3-$(uname -m)/libnccl-net-mpib.so" ||
	fail "the plugin in its tarball"
for library in "$dir"/all/usr/lib/lib{nccl-net-mpib,mpib-softverbs}.so \
	"$dir"/all/usr/lib/libmpib.so.0; do
	readelf -dW "$library" | has "SONAME.*\[$(basename "$library")\]" ||
		fail "$library has no SONAME"
done
for program in "$dir"/all/usr/bin/* "$dir"/all/usr/sbin/*; do
	name=$(basename "$program")
	grep -qE "/man[18]/$name\.[18]\.gz$" <<<"$files" ||
		fail "$name has no manual page"
done
# Skip documents, because their examples may contain such a path.
if grep -rIlE --exclude='*.md' '@[A-Z_]+@|/usr/local|'"$build" "$dir/all"; then
	fail "these files contain a path of this build"
fi

if [ "$(id -u)" -ne 0 ] ||
	! unshare -m sh -c "mount -t tmpfs none $dir/all && mkdir -p $dir/all/u \
		$dir/all/w $dir/all/m && mount -t overlay none -o \
		lowerdir=/,upperdir=$dir/all/u,workdir=$dir/all/w $dir/all/m" \
		2>"$dir/why"; then
	echo "SKIPPED: installing them: there is no overlay: $(cat "$dir/why")"
	[ "$failed" -eq 0 ] && exit 77
	exit 1
fi

# The rest of this script runs in the scratch root.
cat "$here/../support/lines.sh" - >"$dir/inside" <<'EOF'
set -u
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}
mpib_files() {
	find /usr /etc /lib /var /run /opt -xdev \( -name '*mpib*' \
		-o -path '*/mpib/*' \) 2>/dev/null | grep -v ^/var/cache | sort
}
export DEBIAN_FRONTEND=noninteractive
mpib_files >/before
dpkg -i /debs/*.deb >/log 2>&1 || { cat /log; fail "dpkg -i"; }
id mpib >/dev/null || fail "there is no user mpib"
[ "$(stat -c '%a %U %G' /run/mpib)" = "750 mpib mpib" ] ||
	fail "/run/mpib: $(stat -c '%a %U %G' /run/mpib)"

# Start the proxy with the unit's options, but on software rails.
[ "$(stat -c '%a %U' /etc/mpib /etc/mpib/mpib.conf | tr '\n' ' ')" = \
	"755 root 644 root " ] || fail "/etc/mpib: $(ls -ld /etc/mpib /etc/mpib/*)"
dpkg-query -W -f='${Conffiles}\n' mpib-proxy | has /etc/mpib/mpib.conf ||
	fail "an upgrade would overwrite mpib.conf"
eval "$(sed -n 's/^; *\(head .*\)/\1/p' /etc/mpib/mpib.conf)"
sed -i 's/^;key_file/key_file/' /etc/mpib/mpib.conf
setpriv --reuid=mpib --regid=mpib --init-groups mpib-proxy \
	--run-dir /run/mpib --sout "soft:$1.1" --sup "soft:$1.2" >/out 2>&1 &
proxy=$!
await_ready /out "$proxy" || { cat /out; fail "the proxy does not start"; }
mpibctl ping || fail "ping"
mpibctl config | has 'key_file.*/etc/mpib/key' || fail "there is no key"
NCCL_NET_PLUGIN=mpib NCCL_NET=MPIB mpibctl doctor >/doctor ||
	{ cat /doctor; fail "doctor"; }
grep -q '^OK    plugin .*/lib/libnccl-net-mpib.so' /doctor ||
	{ cat /doctor; fail "NCCL would not find the plugin"; }
mpib-top --version || fail "mpib-top"
usermod -a -G mpib nobody
setpriv --reuid=nobody --regid=nogroup --init-groups \
	env MPIB_RUN_DIR=/run/mpib mpibctl ping || fail "the group has no access"
cat >/attach.c <<'C'
#include <mpib/client.h>
#include <stdio.h>
int main(void)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts) };
	struct mpib_client *client;
	int rc = mpib_attach(&opts, &client);

	if (rc < 0)
		return printf("%s\n", mpib_strerror()), 1;
	mpib_detach(client);
	return 0;
}
C
cc -o /attach /attach.c $(pkg-config --cflags --libs mpib) ||
	fail "a program does not build"
/attach || fail "a program does not attach"
readelf -d /attach | has 'NEEDED.*\[libmpib\.so\.0\]' ||
	fail "the program would not run with a newer library"
mkdir -p /debian && touch /debian/control
[ "$(dpkg-shlibdeps -O --warnings=0 -e/attach | grep -o 'libmpib0 (>= [0-9.]*)')" ] ||
	fail "a package of that program would not depend on libmpib0"
cc -Werror -o /vqp /usr/share/doc/mpib-proxy/docs/example/vqp.c \
	$(pkg-config --cflags --libs mpib-vqp) && /vqp --help >/dev/null ||
	fail "the example of the virtual QP does not build"
kill "$proxy" && wait "$proxy" || fail "the proxy ended with $?"

if command -v systemd-analyze >/dev/null; then
	# Write a drop-in file for the agent's unit, as the unit and the manual
	# page describe.
	agent=/etc/systemd/system/mpib-agent.service.d
	mkdir -p "$agent"
	for text in /usr/lib/systemd/system/mpib-agent.service \
		/usr/share/doc/mpib-proxy/docs/operating.md; do
		{ echo '[Service]' &&
			sed -n 's/^[# ]*\(Environment=.*RULE=--config .*\)/\1/p' "$text"
		} >"$agent/$(basename "$text").conf"
		grep -q RULE "$agent/$(basename "$text").conf" ||
			fail "$text does not say how to give mpib-agent a file"
	done
	systemd-analyze verify /usr/lib/systemd/system/mpib-proxy.service \
		/usr/lib/systemd/system/mpib-proxy.socket \
		/usr/lib/systemd/system/mpib-agent.service >/verify 2>&1
	grep -i mpib /verify && fail "systemd-analyze verify"
	rm -r "$agent"
	for unit in mpib-proxy mpib-agent; do
		systemd-analyze security --offline=true --threshold=15 \
			"/usr/lib/systemd/system/$unit.service" >/security 2>&1 ||
			{ cat /security; fail "the sandbox of $unit is open"; }
		tail -n 1 /security
	done
	# The first client that attaches must start the proxy, as with
	# mpib-proxy.socket.
	systemd-socket-activate --seqpacket -l /run/mpib/proxy.sock \
		setpriv --reuid=mpib --regid=mpib --init-groups \
		mpib-proxy --config /dev/null --run-dir /run/mpib \
		--sout "soft:$1.3" --sup "soft:$1.4" >/out 2>&1 &
	proxy=$!
	await test -S /run/mpib/proxy.sock
	# Do not use ping to check whether the proxy runs: ping attaches, which
	# would start the proxy.
	[ -S /run/mpib/stats.sock ] && fail "it runs before a client attaches"
	/attach || fail "no client can attach to the socket"
	mpibctl ping || fail "it was not started"
	# After an upgrade, the new process serves the same socket.
	mpibctl upgrade || fail "no upgrade of a proxy that the socket started"
	wait "$proxy" || fail "the proxy ended with $?"
	/attach || fail "no client can attach after the upgrade"
	kill "$(cat /run/mpib/proxy.pid)"
	await test ! -e /run/mpib/proxy.pid
else
	echo "SKIPPED: the units: systemd-analyze is not installed"
fi

# Create the event file that the unit names. The purge must remove this file.
mkdir -p /var/lib/mpib && touch /var/lib/mpib/events
dpkg --purge mpib-proxy libnccl-net-mpib mpib-tools libmpib-dev libmpib0 \
	mpib-softverbs >/log 2>&1 || { cat /log; fail "dpkg --purge"; }
rm /etc/mpib/key && rmdir /etc/mpib || fail "the purge removed the key"
mpib_files >/after
diff /before /after || fail "these files are left"
exit "$failed"
EOF
cat >"$dir/outside" <<'EOF'
set -e
dir=$1 net=$2 root=$1/all/m
mount -t tmpfs none "$dir/all"
mkdir "$dir/all/u" "$dir/all/w" "$root"
mount -t overlay none -o \
	"lowerdir=/,upperdir=$dir/all/u,workdir=$dir/all/w" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
mkdir "$root/debs"
cp "$dir"/debs/*.deb "$root/debs/"
cp "$dir/inside" "$root/inside"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" \
	bash /inside "$net"
EOF
. "$(dirname "$0")/../support/addr.sh"
rm -rf "$dir/all" && mkdir "$dir/all"
unshare -m --propagation private bash "$dir/outside" "$dir" \
	"$net" || failed=1
exit "$failed"
