#!/usr/bin/perl
# stats_stub.pl SOCKET ANSWERS: take the place of mpib-proxy. Listen at a stats
# socket, and send the answers of a file with lines "COMMAND JSON". For "COMMAND
# !TEXT", send TEXT unchanged and hang up. Append each request to SOCKET.asked.
use strict;
use warnings;
use IO::Socket::UNIX;

my ($path, $file) = @ARGV;
my %answer;
open my $in, '<', $file or die "$file: $!\n";
while (<$in>) {
	$answer{$1} = $2 if /^(\w+) (.*)/;
}
open my $asked, '>>', "$path.asked" or die "$path.asked: $!\n";
$asked->autoflush;
my $server = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die "$path: $!\n";
while (my $reader = $server->accept) {
	print $reader qq({"mpib":"1.2.3","proto":1,"pid":42,"uptime_s":60.5}\n);
	while (<$reader>) {
		print $asked $_;
		my $data = /^(\w+)/ && $answer{$1} || 'null';
		if ($data =~ s/^!//) {
			print $reader $data =~ s/\\n/\n/gr;
			last;
		}
		print $reader qq({"ok":true,"data":$data}\n);
	}
	close $reader;
}
