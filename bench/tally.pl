#!/usr/bin/env perl
# tally.pl --layout FILE [--markdown FILE] [--json FILE] [--plots DIR] SAMPLES:
# medians and ranges of the samples of several repetitions, as a Markdown table
# (on stdout without --markdown), as JSON and as files for gnuplot.
#
# A sample is a line "REP ROW METRIC VALUE". A metric with "@X" is a point of
# a series over X, as in bw@65536. The layout has one item per line, with tabs
# between its words:
#
#   title TEXT                          note TEXT
#   column METRIC HEADING [DIGITS]      row ROW LABEL
#   derive ROW METRIC FACTOR FROMROW FROMMETRIC
#   mark TEXT >=|<= LIMIT ROW METRIC [DIVROW DIVMETRIC]
#
# A mark with a divisor takes the ratio of two samples of the same repetition,
# since these were measured close together, and then the median of the ratios.
#
# DIR/METRIC.dat has a line "label median min max" per row for each column,
# DIR/METRIC.ROW.dat a line "x median min max" per point for each series.
use strict;
use warnings;
use Getopt::Long;
use JSON::PP;

# Words of an item, the kind not counted.
my %least = (title => 1, note => 1, column => 2, row => 2, derive => 5, mark => 5);
my %most = (%least, column => 3, mark => 7);

my %item; # by kind, a list of lists of words
my @texts; # titles and notes in their order
my %sample; # by row and metric, a list of [repetition, value]
my @measured; # [row, metric], each once, as they came

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
		push @texts, $word[0] if $kind =~ /^(title|note)$/;
	}
}

sub add_sample {
	my ($rep, $row, $metric, $value) = @_;
	push @measured, [$row, $metric] if !$sample{$row}{$metric};
	push @{ $sample{$row}{$metric} }, [$rep, $value + 0];
}

sub read_samples {
	my ($path) = @_;
	my $number = qr/[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/i;
	for (lines_of($path)) {
		/^\s*(\d+)\s+(\S+)\s+(\S+)\s+($number)\s*$/ or
			fail("$path: not a sample: $_");
		add_sample($1, $2, $3, $4);
	}
}

sub derive {
	my ($row, $metric, $factor, $from_row, $from_metric) = @_;
	add_sample($_->[0], $row, $metric, $_->[1] * $factor)
		for @{ $sample{$from_row}{$from_metric} // [] };
}

# The statistics of a metric of a row, n of 0 where there is no sample; with a
# divisor, of the ratio per repetition.
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

# All metrics of a row that have samples, with or without a column.
sub json {
	my %rows = map { $_->[0] => {} } @{ $item{row} // [] };
	for (@measured) {
		my ($row, $metric) = @$_;
		$rows{$row}{$metric} = stat_of($row, $metric) if $rows{$row};
	}
	my @marks = map {
		my $st = stat_of(@$_[3 .. $#$_]);
		{
			mark => $_->[0], want => $_->[1], limit => $_->[2] + 0,
			is => $st,
			holds => holds($_, $st) ? JSON::PP::true : JSON::PP::false,
		}
	} @{ $item{mark} // [] };
	return JSON::PP->new->pretty->canonical->space_before(0)->encode(
		{ about => \@texts, rows => \%rows, marks => \@marks });
}

# The files for gnuplot, by name: their text.
sub plots {
	my %text;
	my $point = sub {
		my ($x, $st) = @_;
		return sprintf("%s %.6g %.6g %.6g\n", $x,
			@$st{qw(median min max)});
	};
	for my $column (map { $_->[0] } @{ $item{column} // [] }) {
		$text{$column} = '';
		for my $row (@{ $item{row} // [] }) {
			my $st = stat_of($row->[0], $column);
			$text{$column} .= $point->("\"$row->[1]\"", $st)
				if $st->{n};
		}
	}
	for (@measured) {
		my ($row, $metric) = @$_;
		my ($series, $x) = split /@/, $metric, 2;
		$text{"$series.$row"} .= $point->($x, stat_of($row, $metric))
			if defined $x;
	}
	return %text;
}

# write_to PATH TEXT: without a path, to stdout. A full disk shows only when the
# file is closed.
sub write_to {
	my ($path, $text) = @_;
	my $f;
	open($f, $path ? '>' : '>&', $path // \*STDOUT) && print($f $text) &&
		close($f) or fail('cannot write ' . ($path // 'stdout') . ": $!");
}

my ($layout, $markdown, $json, $dir);
GetOptions('layout=s' => \$layout, 'markdown=s' => \$markdown,
	'json=s' => \$json, 'plots=s' => \$dir) && $layout && @ARGV == 1 or
	fail('it wants --layout FILE and one file of samples');
read_layout($layout);
read_samples($ARGV[0]);
derive(@$_) for @{ $item{derive} // [] };
write_to($markdown, markdown());
write_to($json, json()) if $json;
if ($dir) {
	my %plot = plots();
	write_to("$dir/$_.dat", $plot{$_}) for sort keys %plot;
}
