# shellcheck shell=bash
# Sourced by tests that run containers. These tests use podman with a private
# store below $dir. debootstrap makes the base images from the archive that apt
# uses. Without podman, end the test with status 77 and a line with the reason.

for tool in podman runc debootstrap python3; do
	command -v "$tool" >/dev/null && continue
	echo "SKIPPED: containers: there is no $tool (apt-get install $tool)"
	exit 77
done
if [ "$(id -u)" -ne 0 ] || ! python3 -c 'import yaml' 2>/dev/null; then
	echo "SKIPPED: containers need root and python3-yaml"
	exit 77
fi

# Use the limits that this machine's kernel allows, not podman's defaults.
pod() {
	podman --root "$dir/store" --runroot "$dir/podman" --runtime runc \
		--cgroup-manager cgroupfs --log-level error "$@"
}
limits=("--ulimit=nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit=nproc=4096:4096)

pod_end() {
	pod rm --all --force --time 1 >/dev/null 2>&1
	pod rmi --all --force >/dev/null 2>&1
	mount | awk -v top="$dir/" 'index($3, top) == 1 { print $3 }' | sort -r |
		xargs -r umount -l
}

# image SUITE NAME PACKAGES: make a base image. The image's files are kept in
# the build folder for the next run.
image() {
	local kept=$build/images/$1.tar at
	at=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' |
		head -n 1)
	if [ ! -s "$kept" ]; then
		mkdir -p "$build/images"
		debootstrap --variant=minbase ${3:+--include="$3"} "$1" \
			"$dir/$1" "$at" >"$dir/log" 2>&1 &&
			tar -C "$dir/$1" -cf "$kept.new" . && mv "$kept.new" "$kept" || {
			tail -n 3 "$dir/log"
			echo "SKIPPED: containers: debootstrap cannot make $1"
			exit 77
		}
		rm -rf "${dir:?}/$1"
	fi
	pod import "$kept" "$2" >"$dir/log" 2>&1 || {
		cat "$dir/log"
		echo "SKIPPED: containers: podman cannot import an image here"
		exit 77
	}
	pod run --rm --network=none "${limits[@]}" "$2" true >"$dir/log" 2>&1 || {
		cat "$dir/log"
		echo "SKIPPED: containers: podman cannot run a container here"
		exit 77
	}
}
