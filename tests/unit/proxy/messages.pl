#!/usr/bin/env perl
# messages.pl SOURCE [list]: every text that proxy, client library, plugin and
# tools give a user has its line in docs/messages.md, and every line there is
# the text of a call. "list" prints the texts.
#
# Known by the functions that take them, so that a new one needs no mark:
# what stands in the place of the format, with … for each conversion, as far as
# the remedy in brackets. Texts about the command line are left to --help, and
# what is a conversion alone to where it comes from.
use strict;
use warnings;

my ($source, $list) = @ARGV;
my $literal = qr/"(?:[^"\\\n]|\\.)*"/;
my $joined = qr/$literal(?:\s*(?:PRI\w+|MPIB_\w+)?\s*$literal)*/;

# Which string of the call is the text; mpib_ask_fail()'s first is the hint.
my %nth = map { $_ => 0 } qw(
	mpib_agent_bad
	peer_conn_fail mpib_ctl_fail mpib_err mpib_fail engine_conn_break
	mpib_lane_break proxy_client_refuse mpib_last_error_set
	mpib_upgrade_give_up mpib_warn mpib_why_fail net_say snprintf turn_away);
# A file's own, named for the file.
my $own = qr/(?!mpib_)\w+_v?(?:fail|refuse|bad)/;
$nth{mpib_ask_fail} = 1;
my $call = join '|', sort keys %nth;

# From behind an opening bracket to the one that closes it.
sub arguments {
	my ($text) = @_;
	my $depth = 1;

	while ($text =~ /\G(?:$literal|'(?:[^'\\]|\\.)'|([()])|[^"'()]+)/gc) {
		next unless defined $1;
		$depth += $1 eq '(' ? 1 : -1;
		return substr($text, 0, pos($text) - 1) if $depth == 0;
	}
	return '';
}

sub texts {
	my ($arguments) = @_;

	return map {
		my $whole = $_;
		$whole =~ s/\bPRI\w+/"…"/g;
		$whole =~ s/\bMPIB_\w+/"…"/g;
		join '', $whole =~ /"((?:[^"\\\n]|\\.)*)"/g;
	} $arguments =~ /$joined/g;
}

my %given;
open my $find, '-|', 'find', (map { "$source/$_" } qw(proxy runtime plugin)),
	'-name', '*.c', '-not', '-path', '*/softverbs/*', '-print0'
	or die "find: $!\n";
for my $file (split /\0/, do { local $/; <$find> }) {
	open my $in, '<', $file or die "$file: $!\n";
	my $code = do { local $/; <$in> };
	$code =~ s{/\*.*?\*/}{}gs;
	while ($code =~ /\b(?:v?($call)|($own))\(/g) {
		my $name = $1 // '';
		my $arguments = arguments(substr($code, pos($code)));
		# Of all that is printed only why something failed.
		next if $name eq 'snprintf' &&
			$arguments !~ /^[\w.>-]*\b(?:why|last_error)\b/;
		my $text = (texts($arguments))[$nth{$name} // 0] // next;
		$text =~ s/%[-0-9.*]*(?:hh|h|ll|l|z)?[a-z]|%(?=…)/…/g;
		$text =~ s/(?:…){2,}/…/g;
		$text =~ s/\\"/"/g;
		$text =~ s/ \([^()]*(?:\([^()]*\)[^()]*)*\)$//;
		next if $text =~ /^command line:/ || $text !~ /[a-z]{2}.*/ ||
			$text !~ / /;
		$file =~ s{^\Q$source\E/}{};
		$given{$text} //= $file;
	}
}
if ($list) {
	print map { "$given{$_}\t$_\n" } sort keys %given;
	exit;
}

my %told;
open my $page, '<', "$source/docs/messages.md" or die "docs/messages.md: $!\n";
while (<$page>) {
	$told{$1} = $. if /^\| `([^`]+)` \|/;
}
die "messages: too few were found to believe it\n" if keys %given < 100;
my @without = grep { !$told{$_} } sort keys %given;
my @nobody = grep { !$given{$_} } sort keys %told;
print map { "docs/messages.md does not have, of $given{$_}: $_\n" } @without;
print map { "docs/messages.md:$told{$_}: nobody says: $_\n" } @nobody;
printf "%d messages\n", scalar keys %given;
exit(@without || @nobody ? 1 : 0);
