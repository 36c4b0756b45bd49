#!/usr/bin/perl
# stats_stub.pl SOCKET ANSWERS: a stats socket that gives the answers of a file, lines of
# "COMMAND JSON", in place of mpib-proxy.
use strict;
use warnings;
use IO::Socket::UNIX;

my ($path, $file) = @ARGV;
my %answer;
open my $in, '<', $file or die "$file: $!\n";
while (<$in>) {
	$answer{$1} = $2 if /^(\w+) (.*)/;
}
my $server = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die "$path: $!\n";
while (my $reader = $server->accept) {
	print $reader qq({"mpib":"1.2.3","proto":1,"pid":42,"uptime_s":60.5}\n);
	while (<$reader>) {
		my $data = /^(\w+)/ && $answer{$1} || 'null';
		print $reader qq({"ok":true,"data":$data}\n);
	}
}
