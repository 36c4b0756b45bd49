#!/usr/bin/env perl
# messages.pl SOURCE [list]: check the texts that proxy, client library, plugin and
# tools print for users. Each ends with a remedy or is in exactly one row of
# docs/messages.md, and each text of that document is printed by a call. "list"
# prints the texts.
#
# A text is the format of a call of the functions below, or the reason that a caller
# sets. Each conversion becomes …, and the remedy in brackets is removed. --help
# explains texts about the command line.
use strict;
use warnings;

my ($source, $list) = @ARGV;
my $literal = qr/"(?:[^"\\\n]|\\.)*"/;
my $macro = qr/\b(?!NULL\b)[A-Z][A-Z0-9_a-z]*\b/;
my $joined = qr/$literal(?:\s*(?:$macro)?\s*$literal)*/;

# For each function, the index of the string that is the text. The first string of
# mpib_ask_fail() is the hint.
my %nth = map { $_ => 0 } qw(
	mpib_agent_bad agent_hang_up
	peer_conn_fail mpib_ctl_fail mpib_err mpib_fail engine_conn_break
	mpib_lane_break proxy_client_refuse mpib_last_error_set
	mpib_warn mpib_why_fail net_say snprintf turn_away
	lane_end mpib_conn_fail mpib_peer_broke mpib_peer_cut mpib_peer_forget
	mpib_peer_refuse peer_lane_kill peer_lane_lose setup_ended_there
	wrong_end no_use proxy_client_drop note_refused mpib_event);
# Functions for errors that a file defines for its own use, such as file_fail().
my $own = qr/(?!mpib_)\w+_v?(?:fail|refuse|bad)/;
$nth{mpib_ask_fail} = 1;
$nth{mpib_event} = 1;
my $call = join '|', sort keys %nth;

# Return what is between an opening bracket and its closing bracket, split at commas.
sub arguments {
	my ($text) = @_;
	my ($depth, @found) = (1, '');

	while ($text =~ /\G($literal|'(?:[^'\\]|\\.)'|[(),]|[^"'(),]+)/gc) {
		$depth += $1 eq '(' ? 1 : $1 eq ')' ? -1 : 0;
		return @found if $depth == 0;
		if ($1 eq ',' && $depth == 1) {
			push @found, '';
		} else {
			$found[-1] .= $1;
		}
	}
	return;
}

# Return the texts of an argument. If a condition chooses, there are two.
sub texts {
	my ($argument) = @_;

	return map {
		my $whole = $_;
		$whole =~ s/($literal)|$macro/$1 \/\/ '"…"'/ge;
		join '', $whole =~ /"((?:[^"\\\n]|\\.)*)"/g;
	} $argument =~ /$joined/g;
}

my (%given, %bare);

sub given {
	my ($text, $file, $event) = @_;

	$text =~ s/%[-0-9.*]*(?:hh|h|ll|l|z)?[a-z]|%(?=…)/…/g;
	$text =~ s/(?:…){2,}/…/g;
	$text =~ s/\\"/"/g;
	my $remedy = $text =~ s/ (\([^()]*(?:\([^()]*\)[^()]*)*\))$// ? $1 : '';
	return if $text =~ /^command line:/ || $text !~ /[a-z]{2}.*/ ||
		$text !~ / /;
	$file =~ s{^\Q$source\E/}{};
	$given{$text} //= $file;
	# Most events report no fault, so they need no remedy.
	$bare{$text} = 1 unless $event || $remedy =~ /[a-z]{2}/;
}

open my $find, '-|', 'find', (map { "$source/$_" } qw(proxy runtime plugin)),
	'-name', '*.[ch]', '-not', '-path', '*/softverbs/*', '-print0'
	or die "find: $!\n";
for my $file (split /\0/, do { local $/; <$find> }) {
	open my $in, '<', $file or die "$file: $!\n";
	my $code = do { local $/; <$in> };
	$code =~ s{/\*.*?\*/}{}gs;
	given($_, $file) for map { texts($_) }
		$code =~ /\b(?:why|overflow) = ($joined)[;,]/g;
	while ($code =~ /\b(?:v?($call)|($own))\(/g) {
		my $name = $1 // '';
		my @arguments = arguments(substr($code, pos($code)));
		# Of the texts that snprintf() makes, check only reasons for a failure.
		next if $name eq 'snprintf' &&
			($arguments[0] // '') !~ /^[\w.>-]*\b(?:why|last_error)\b/;
		@arguments = grep { /"/ } @arguments;
		for my $text (texts($arguments[$nth{$name} // 0] // '')) {
			given($text, $file, $name eq 'mpib_event');
		}
	}
}
if ($list) {
	print map { "$given{$_}\t$_\n" } sort keys %given;
	exit;
}

my (%told, @twice);
open my $page, '<', "$source/docs/messages.md" or die "docs/messages.md: $!\n";
while (<$page>) {
	next unless /^\| (`[^`]+`(?:, `[^`]+`)*) \|/;
	for my $text ($1 =~ /`([^`]+)`/g) {
		push @twice, "docs/messages.md:$.: there twice: $text\n"
			if $told{$text};
		$told{$text} = $.;
	}
}
die "messages: found too few to be right\n" if keys %given < 100;
my @without = grep { $bare{$_} && !$told{$_} } sort keys %given;
my @unknown = grep { !$given{$_} } sort keys %told;
print map { "no remedy, and not in docs/messages.md, of $given{$_}: $_\n" } @without;
print map { "docs/messages.md:$told{$_}: no call has this text: $_\n" } @unknown;
print @twice;
printf "%d messages\n", scalar keys %given;
exit(@without || @unknown || @twice ? 1 : 0);
