# Reads Markdown and scdoc files. Prints their commands, options and tests that
# do not exist.
#
#   commands.pl BUILD TARGETS TESTS LABELS FILE...
#
# TARGETS, TESTS and LABELS are files with one name per line.
use strict;
use warnings;

my ($build, $targets, $tests, $labels) = splice @ARGV, 0, 4;
my %in = map { $_ => 'proxy' } qw(mpib-proxy mpibctl mpib-top mpib-agent);
$in{'mpib-perf'} = 'bench';
my $program = join '|', map { quotemeta } sort keys %in;
my $script = qr{(?:bench|tests|build/(?:bench|proxy|tests))/[\w./-]*\w};
# These programs run when they are started, with any arguments, so they have no
# --help.
my $mute = qr{^build/(?:tests|fuzz)|^build/bench/(?!mpib-perf)};
my %target = map { ("$build/$_" => 1) } lines($targets);
my @test = lines($tests);
my %label = map { $_ => 1 } lines($labels);
my (%help, %verbs);

sub lines {
	open my $in, '<', $_[0] or die "$_[0]: $!\n";
	chomp(my @lines = <$in>);
	return @lines;
}

sub bad {
	print "$ARGV:$.: @_\n";
}

sub path_of {
	my ($name) = @_;

	return "$build/$in{$name}/$name" if $in{$name};
	$name =~ s{^build/}{$build/};
	return $name;
}

sub ask {
	my ($path, $option) = @_;

	open my $in, '-|', 'sh', '-c', 'exec "$0" "$1" 2>&1 </dev/null', $path,
		$option or return '';
	local $/;
	return scalar(<$in>) // '';
}

# Return whether the program accepts the option, and whether the next word is
# its value.
sub option {
	my ($help, $option) = @_;

	return () unless $help =~ /(?<![\w-])\Q$option\E(?![\w-])(.*)/;
	my $rest = $1;
	$rest =~ s/^, --[a-z-]+//;
	return $rest =~ /^ (?:[A-Z<]|[a-z0-9]+\|)/ ? 1 : 0;
}

sub noun_and_verb {
	my ($path, $noun, $verb) = @_;

	unless (%verbs) {
		for (split /\n/, ask($path, '--commands')) {
			my ($n, $v, $arg) = split / /, $_, 3;
			next if $n =~ /^-/;
			$verbs{$n}{$v} = 1;
			$verbs{$n}{''} = 1 if defined $arg && $v =~ /^(show|now|set)$/ &&
				$arg ne '';
		}
		$verbs{help}{''} = 1;
	}
	return unless defined $noun && $noun =~ /^[a-z]/;
	return bad("mpibctl has no $noun") unless $verbs{$noun};
	bad("mpibctl $noun has no $verb")
		if defined $verb && $verb =~ /^[a-z]+$/ && !$verbs{$noun}{$verb} &&
		!$verbs{$noun}{''};
}

sub command {
	my ($name, @word) = @_;
	my $path = path_of($name);
	my @plain;

	return if $name =~ /[A-Z]{2}/; # NAME stands for what a reader has
	return if -d $path;
	return bad("there is no $name")
		unless -e $path || $target{$path} || -e "$path.c";
	return if $name =~ $mute || !-x $path;
	$help{$path} //= ask($path, '--help') if grep { /^-/ } @word;
	while (defined(my $word = shift @word)) {
		if ($word =~ /^(-[A-Za-z]|--[a-z][a-z-]*)(=.*)?$/) {
			my $value = option($help{$path}, $1);

			bad("$name has no option $1") unless defined $value;
			shift @word if $value && !defined $2;
		} elsif ($word !~ /^-/) {
			push @plain, $word;
		}
	}
	noun_and_verb($path, @plain) if $name eq 'mpibctl';
}

# Check one line of a shell, or text in backticks.
sub shell {
	my ($line) = @_;

	$line =~ s/\s#.*//;
	for my $one (split /\s*(?:&&|\|\||\||;|&$|>)\s*/, $line) {
		$one =~ s/^\$ //;
		$one =~ s/^(?:[A-Z_]+=(?:"[^"]*"|'[^']*'|\S)*\s+)+//;
		next unless $one =~ m{^($program|$script)(?:\s+(.*))?$} && $one !~ m{/$};
		command($1, split ' ', $2 // '');
	}
}

# Return each alternative of a pattern as a pattern.
sub alternatives {
	my ($re) = @_;

	if ($re =~ /^(.*)\(([^()]*)\)(.*)$/) {
		my ($before, $after) = ($1, $3);

		return map { alternatives("$before$_$after") } split /\|/, $2;
	}
	return split /\|/, $re;
}

sub selection {
	my ($text) = @_;

	return unless $text =~ /^(?:-[RL]|ctest) /;
	$text =~ s/\\\|/|/g;
	while ($text =~ /-R '?([^' ]+)'?/g) {
		for my $re (alternatives($1)) {
			bad("no test is called $re") unless grep { /$re/ } @test;
		}
	}
	while ($text =~ /-L '?([^' ]+)'?/g) {
		my $re = $1;
		bad("no test has a label $re") unless grep { /$re/ } keys %label;
	}
}

sub test_name {
	my ($name) = @_;
	my $re = quotemeta $name;

	return if -e $name || $name =~ /[A-Z]{2}/;
	$re =~ s/\\\*/.*/g;
	bad("no test is called $name") unless grep { /^$re/ } @test;
}

# Return the program of a test, without its folder.
sub program_name {
	my ($name) = @_;

	bad("no test is called $name") unless grep { m{/\Q$name\E$} } @test;
}

my $code = 0;
while (<>) {
	chomp;
	$code = 0 if $. == 1;
	if (/^\s*```/) {
		$code = !$code;
	} elsif ($code) {
		shell($_);
	} else {
		for my $piece (/`([^`]+)`/g) {
			shell($piece);
			selection($piece);
			test_name($piece) if $piece =~
				m{^(?:unit|integration|fault|check|litmus|softverbs)/[\w*]+$};
			program_name($piece) if $piece =~ m{^(?:test|attack)_\w+$};
		}
	}
} continue {
	close ARGV if eof(ARGV); # numbers its lines anew
}
