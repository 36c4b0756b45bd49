#!/usr/bin/env perl
# What came of attacks, as a Markdown table. Of each log FILE.here of an attack
# program FILE.elsewhere is the log of the same with its victims on other proxies of
# the machine: table.pl ATTACK.ROUND.here...
#
# A row for each victim: what it was there for, messages and attaches, and the p99 of
# its messages by that of the one elsewhere; medians and ranges of all rounds.
use strict;
use warnings;

# victims FILE: [attacks, outcome, messages, attaches, p99] for each.
sub victims {
	my ($file) = @_;
	my (@victims, @attacks, $through, $p99);
	open my $f, '<', $file or die "$file: $!\n";
	while (<$f>) {
		if (/^\[ +(OK|FAILED) +\] ([a-z]\w*)$/) {
			push @attacks, $2 =~ tr/_/ /r;
			$through = 1 if $1 eq 'FAILED';
			my @unnamed = grep { !@{ $_->[0] } } @victims;
			$_->[0] = [@attacks] for @unnamed;
			@attacks = () if @unnamed;
		}
		# A newcomer tells no p99.
		$p99 = $1 if /^the victim: p99 (\d+) us/;
		if (defined $p99 && /^the victim: (\d+) messages, (\d+) attaches/) {
			push @victims, [ [splice @attacks], '', $1, $2, $p99 ];
			undef $p99;
		}
	}
	# Who has got through may have left no victim that tells.
	push @victims, [ [@attacks], '', 0, 0, 0 ] if @attacks && !@victims;
	$_->[1] = $through ? '**GOT THROUGH**' : 'nothing' for @victims;
	return @victims;
}

sub median {
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[$#sorted / 2];
}

sub row {
	my ($name, @rounds) = @_;
	my @times = map { $_->[0][4] / ($_->[1][4] || 1) } @rounds;
	my ($here, $there) =
		map { my $n = $_; median(map { $_->[$n][4] } @rounds) } 0, 1;
	my @attacks = @{ $rounds[0][0][0] };
	my ($through) = grep { /THROUGH/ } map { $_->[0][1] } @rounds;
	printf "| `%s`: %s | %s | %d | %d | %.1f [%.1f–%.1f] | %.2f of %.2f |\n",
		$name, @attacks == 1 ? $attacks[0] : @attacks . ' attacks',
		$through // 'nothing', median(map { $_->[0][2] } @rounds),
		median(map { $_->[0][3] } @rounds), median(@times),
		(sort { $a <=> $b } @times)[ 0, -1 ], $here / 1000, $there / 1000;
}

my (%rounds, @names);
for my $file (@ARGV) {
	my ($name) = $file =~ m{([^/]+)\.\d+\.here$} or die "$file: no log's name\n";
	my @here = victims($file);
	my @there = victims($file =~ s/here$/elsewhere/r);
	push @names, $name unless $rounds{$name};
	push @{ $rounds{$name}[$_] }, [ $here[$_], $there[$_] ]
		for grep { $there[$_] } 0 .. $#here;
}
print "\n| attack | outcome | messages | attaches | p99, times that elsewhere |" .
	" ms |\n| --- | --- | --- | --- | --- | --- |\n";
for my $name (@names) {
	row($name, @$_) for @{ $rounds{$name} };
}
