#!/usr/bin/env perl
# table.pl ATTACK.ROUND.here...: print the results of attacks as a Markdown
# table. For each log FILE.here of an attack program, FILE.elsewhere is the log
# of the same program with its victims on other proxies of the machine.
#
# Print a row for each victim: the attack, messages and attaches, and the p99 of
# its messages relative to the victim elsewhere. The numbers are medians and
# ranges of all rounds.
use strict;
use warnings;

# victims FILE: return { attacks, outcome, messages, attaches, p99 } for each
# victim. A successful attack whose victim made no report has no numbers.
sub victims {
	my ($file) = @_;
	my (@victims, @attacks, %over, $running, $p99);
	open my $f, '<', $file or die "$file: $!\n";
	while (<$f>) {
		if (/^\[ RUN +\] (\w+)$/) {
			push @attacks, $running = $1;
		} elsif (/^\[ +(OK|FAILED|SKIPPED) +\] ([a-z]\w*)$/) {
			$over{$2} = $1;
			undef $running;
		}
		# Count only victims that report a p99. A second, short-lived
		# victim reports none.
		$p99 = $1 if /^the victim: p99 (\d+) us/;
		if (defined $p99 && /^the victim: (\d+) messages, (\d+) attaches/) {
			my %victim = (messages => $1, attaches => $2, p99 => $p99);
			$victim{attacks} = [ $running // @attacks ];
			@attacks = grep { $running && $_ ne $running } @attacks;
			push @victims, \%victim;
			undef $p99;
		}
	}
	# A test that did not finish counts as a successful attack, because the
	# program ended in it.
	push @victims, map { { attacks => [$_] } }
		grep { ($over{$_} // 'FAILED') eq 'FAILED' } @attacks;
	for my $victim (@victims) {
		my @of = grep { ($over{$_} // '') ne 'SKIPPED' } @{ $victim->{attacks} };
		my $through = grep { ($over{$_} // '') ne 'OK' } @of;
		$victim->{outcome} = $through ? '**GOT THROUGH**' : 'nothing';
		$victim->{attacks} = [ map { tr/_/ /r } @of ];
	}
	return @victims;
}

sub median {
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[$#sorted / 2];
}

sub row {
	my ($name, @rounds) = @_;
	my @here = map { $_->{here} // () } @rounds;
	my @both = grep { $_->{here}{p99} && $_->{elsewhere}{p99} } @rounds;
	my @times = map { $_->{here}{p99} / $_->{elsewhere}{p99} } @both;
	my @attacks = @{ $here[0]{attacks} };
	my ($through) = grep { /THROUGH/ } map { $_->{outcome} } @here;
	printf "| `%s`: %s | %s | %d | %d | ", $name,
		@attacks == 1 ? $attacks[0] : @attacks . ' attacks',
		$through // 'nothing',
		map { my $what = $_; median(map { $_->{$what} // 0 } @here) }
		qw(messages attaches);
	return print "- | - |\n" unless @both;
	printf "%.1f [%.1f–%.1f] | %.2f of %.2f |\n", median(@times),
		(sort { $a <=> $b } @times)[ 0, -1 ],
		map { my $at = $_; median(map { $_->{$at}{p99} } @both) / 1000 }
		qw(here elsewhere);
}

# Print the rows of a program in order. A row summarizes the same victim of all
# rounds.
my (%rounds, %rows, @names);
for my $file (@ARGV) {
	my ($name) = $file =~ m{([^/]+)\.\d+\.here$} or die "$file: no log's name\n";
	my %round;
	push @names, $name unless $rounds{$name};
	for my $at (qw(here elsewhere)) {
		my %nth;
		for my $victim (victims($file =~ s/here$/$at/r)) {
			my $key = join ', ', @{ $victim->{attacks} };
			$key .= ' ' . $nth{$key}++;
			$round{$key}{$at} = $victim;
			next if $at ne 'here' || $rounds{$name}{$key};
			push @{ $rows{$name} }, $key;
			$rounds{$name}{$key} = [];
		}
	}
	push @{ $rounds{$name}{$_} }, $round{$_}
		for grep { $round{$_}{here} } keys %round;
	$rounds{$name} //= {};
}
print "\n| attack | outcome | messages | attaches | p99, times that elsewhere |" .
	" ms |\n| --- | --- | --- | --- | --- | --- |\n";
for my $name (@names) {
	row($name, @{ $rounds{$name}{$_} }) for @{ $rows{$name} // [] };
}
