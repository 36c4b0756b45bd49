#!/usr/bin/env perl
# tally.pl LAYOUT SAMPLES: print medians and ranges of the samples of several
# repetitions as a Markdown table.
#
# A sample is a line "REP ROW METRIC VALUE". The layout has one item per line, with
# tabs between its words:
#
#   title TEXT                          note TEXT
#   column METRIC HEADING [DIGITS]      row ROW LABEL
#   mark TEXT >=|<= LIMIT ROW METRIC [DIVROW DIVMETRIC]
#
# A mark is a goal. With a divisor, its value is the median of the ratios of two
# samples of the same repetition, as these were measured close together.
use strict;
use warnings;

# The number of words of an item, without its kind.
my %least = (title => 1, note => 1, column => 2, row => 2, mark => 5);
my %most = (%least, column => 3, mark => 7);

my %item; # by kind, a list of lists of words
my %sample; # by row and metric, a list of [repetition, value]

sub fail {
	print STDERR "tally.pl: @_\n";
	exit 1;
}

sub lines_of {
	my ($path) = @_;
	open(my $f, '<', $path) or fail("cannot read $path: $!");
	chomp(my @lines = <$f>);
	return @lines;
}

sub read_layout {
	my ($path) = @_;
	for (grep { /^[^#]/ } lines_of($path)) {
		my ($kind, @word) = grep { length } split /\t/;
		fail("$path: \"$_\" is no item of a layout")
			if !$least{$kind} || @word < $least{$kind} ||
			@word > $most{$kind};
		push @{ $item{$kind} }, \@word;
	}
}

sub read_samples {
	my ($path) = @_;
	my $number = qr/[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/i;
	for (lines_of($path)) {
		/^\s*(\d+)\s+(\S+)\s+(\S+)\s+($number)\s*$/ or
			fail("$path: not a sample: $_");
		push @{ $sample{$2}{$3} }, [$1, $4 + 0];
	}
}

# Return the statistics of a metric of a row; n is 0 if there is no sample. With a
# divisor, return those of the ratio per repetition.
sub stat_of {
	my ($row, $metric, $div_row, $div_metric) = @_;
	my (%divisor, @value);
	$divisor{ $_->[0] } //= $_->[1]
		for $div_metric ? @{ $sample{$div_row}{$div_metric} // [] } : ();
	for (@{ $sample{$row}{$metric} // [] }) {
		my ($rep, $value) = @$_;
		next if $div_metric && !$divisor{$rep};
		push @value, $div_metric ? $value / $divisor{$rep} : $value;
	}
	return { n => 0, median => 0, min => 0, max => 0 } if !@value;
	@value = sort { $a <=> $b } @value;
	return {
		n => scalar @value,
		median => ($value[$#value / 2] + $value[@value / 2]) / 2,
		min => $value[0],
		max => $value[-1],
	};
}

sub cell {
	my ($st, $digits) = @_;
	return ' - |' if !$st->{n};
	return sprintf(" %.*f |", $digits, $st->{median}) if $st->{n} == 1;
	return sprintf(" %.*f [%.*f–%.*f] |", map { $digits, $st->{$_} }
		qw(median min max));
}

sub holds {
	my ($mark, $st) = @_;
	my (undef, $want, $limit) = @$mark;
	return $st->{n} && ($want =~ /^>/ ? $st->{median} >= $limit
		: $st->{median} <= $limit);
}

sub markdown {
	my @columns = @{ $item{column} // [] };
	my $text = join('', map { "$_->[0]\n\n" } @{ $item{title} // [] });
	$text .= '| |' . join('', map { " $_->[1] |" } @columns) . "\n";
	$text .= '|---|' . '---|' x @columns . "\n";
	for my $row (@{ $item{row} // [] }) {
		$text .= "| $row->[1] |";
		$text .= cell(stat_of($row->[0], $_->[0]), $_->[2] // 2)
			for @columns;
		$text .= "\n";
	}
	$text .= "\n| mark | want | is | |\n|---|---|---|---|\n" if $item{mark};
	for my $mark (@{ $item{mark} // [] }) {
		my $st = stat_of(@$mark[3 .. $#$mark]);
		$text .= "| $mark->[0] | $mark->[1] $mark->[2] |" . cell($st, 3) .
			(!$st->{n} ? ' not measured'
			: holds($mark, $st) ? ' holds' : ' does not hold') . " |\n";
	}
	return $text . join('', map { "\n$_->[0]\n" } @{ $item{note} // [] });
}

@ARGV == 2 or fail('give a file with a layout and a file with samples');
read_layout($ARGV[0]);
read_samples($ARGV[1]);
# Check close(), as a full disk may be reported only then.
print(markdown()) && close(STDOUT) or fail("cannot write stdout: $!");
