# shellcheck shell=bash
# Sourced. Print NCCL's topology file for a node.
#
#   topology GPUS LINKS NET...   GPUs from 0000:10:00.0 on, each behind its own
#                                switch. The first GPU of each network device
#                                shares the switch of the device. With LINKS 1
#                                all GPUs are connected by NVLink
#
# NET is the name that the plugin gives a network device.
topology() {
	local gpus=$1 links=$2 i net nets
	shift 2
	nets=("$@")
	echo '<system version="1">'
	printf ' <cpu numaid="0" affinity="%08x" arch="x86_64"' 3
	echo ' vendor="GenuineIntel" familyid="6" modelid="143">'
	for ((i = 0; i < gpus; i++)); do
		topology_pci "0000:$(printf %02x $((i + 1))):00.0" 0x060400
		topology_gpu "$i" "$gpus" "$links"
		net=${nets[$i]:-}
		[ -n "$net" ] && topology_net "$i" "$net"
		echo '  </pci>'
	done
	echo ' </cpu>'
	echo '</system>'
}

topology_bus() {
	printf '0000:%02x:00.0' $((16 + $1))
}

topology_pci() {
	echo "  <pci busid=\"$1\" class=\"$2\" vendor=\"0x1000\"" \
		'device="0xc030" subsystem_vendor="0x1000"' \
		'subsystem_device="0x1" link_speed="32.0 GT/s PCIe"' \
		'link_width="16">'
}

topology_gpu() {
	local peer
	topology_pci "$(topology_bus "$1")" 0x030200
	echo "    <gpu dev=\"$1\" sm=\"${STANDIN_SM:-90}\"" \
		"gdr=\"${STANDIN_DMABUF:-1}\">"
	for ((peer = 0; peer < $2; peer++)); do
		[ "$3" -eq 1 ] && [ "$peer" -ne "$1" ] &&
			echo "     <nvlink target=\"$(topology_bus "$peer")\"" \
				'count="6" tclass="0x030200"/>'
	done
	echo '    </gpu>'
	echo '  </pci>'
}

topology_net() {
	topology_pci "$(printf '0000:%02x:00.0' $((64 + $1)))" 0x020700
	echo '    <nic>'
	echo "     <net name=\"$2\" dev=\"$1\" latency=\"0.0\" speed=\"80000\"" \
		"port=\"1\" guid=\"0x$(($1 + 1))\" maxconn=\"65536\"" \
		"gdr=\"${STANDIN_DMABUF:-1}\"/>"
	echo '    </nic>'
	echo '  </pci>'
}
