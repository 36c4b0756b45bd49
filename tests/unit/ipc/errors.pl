#!/usr/bin/env perl
# errors.pl HEADERS... PAGES... -- SOURCES... -- OTHERS...: check the documented
# errors of each function of the headers:
#
#   An error that a function can return must be listed at the function's
#   declaration or, for all functions, at the top of the header. A function
#   returns the errors that it or a function it calls passes to mpib_fail(). If
#   no source calls mpib_fail(), the errors in return statements count.
#
#   Each listed error must be an error of a function that is called, or of
#   OTHERS, whose answers are passed on.
#
#   The function's page of section 3 must list the same errors.
#
# A comment is for the declarations up to the next empty line, and for the
# functions that it names in "Errors of a() and b():".
use strict;
use warnings;

my @files = ([]);
for (@ARGV) {
	if ($_ eq '--') { push @files, [] }
	else { push @{ $files[-1] }, $_ }
}
my ($documents, $sources, $others) = @files;
my @headers = grep { /\.h$/ } @$documents;
my @pages = grep { !/\.h$/ } @$documents;
# Errors of connect(2), which mpib_attach() documents, and of ftruncate(2) in
# the proxy.
my %passed = map { $_ => 1 } qw(EACCES ENOENT ECONNREFUSED EFBIG);
my $bad = 0;

sub slurp {
	my $text = '';
	for my $file (@_) {
		open my $in, '<', $file or die "$file: $!\n";
		local $/;
		$text .= <$in> . "\n";
	}
	return $text;
}
sub codes { return map { $_ => 1 } $_[0] =~ /-\s*(E[A-Z0-9]{2,})\b/g }
sub complain { print "$_[0]\n"; $bad = 1 }

my (%all, %of); # errors listed for all functions, and for each function

sub take_header {
	my ($top, $text) = split /#ifndef/, slurp($_[0]), 2;
	my %now;
	%all = (%all, codes($top));
	while ($text =~ m{(/\*.*?\*/)|^([a-z][^;{}]*?\b(mpib_\w+)\([^;{}]*\)[^;]*);|\n\n}gms) {
		if (defined $1) {
			my $comment = $1;
			%now = codes($comment);
			next unless $comment =~ /Errors of ([^:]*):/;
			my @named = $1 =~ /mpib_\w+/g;
			for my $name (@named) {
				$of{$name}{$_} = 1 for keys %now;
			}
		} elsif (defined $3) {
			my ($declared, $name) = ($2, $3);
			next if $declared =~ /^typedef/;
			$of{$name} //= {};
			$of{$name}{$_} = 1 for keys %now;
		} else {
			%now = ();
		}
	}
}

# bodies(): return the body of each function in the sources.
sub bodies {
	my $text = slurp(@$sources);
	my %body;
	$text =~ s{/\*.*?\*/}{}gs;
	$text =~ s{__attribute__\(\(.*?\)\)}{}gs;
	$body{$1} .= $2
		while $text =~ /^[ \w*]*\b\s*(\w+)\([^;{}]*?\)\n\{\n(.*?)\n\}/gms;
	return \%body;
}

sub reached {
	my ($body, $name, $seen) = @_;
	return '' if $seen->{$name}++ || !defined $body->{$name};
	my %called = map { $_ => 1 } $body->{$name} =~ /\b([a-z]\w+)\b/g;
	return join ' ', $body->{$name},
		map { reached($body, $_, $seen) } sort keys %called;
}

take_header($_) for @headers;
my $body = bodies();
my %elsewhere = (%passed, $others ? codes(slurp(@$others)) : ());
my $own = join('', values %$body) =~ /\bmpib_fail\(/ ? 'mpib_fail\(' : 'return\b[^;]*?';
my $judged = 0;
for my $name (sort keys %of) {
	next unless defined $body->{$name}; # a type, or not in the sources
	my $text = reached($body, $name, {});
	my %made = map { $_ => 1 } $text =~ /$own\s*-(E[A-Z0-9]+)/g;
	my %named = codes($text);
	$judged++;
	for (sort keys %made) {
		complain("$name() makes -$_, which its header does not list")
			unless $of{$name}{$_} || $all{$_};
	}
	for (sort keys %{ $of{$name} }) {
		complain("$name() lists -$_, and nothing makes it")
			unless $named{$_} || $elsewhere{$_};
	}
}
my %everywhere = codes(join ' ', values %$body);
for (sort keys %all) {
	complain("-$_ is listed for all, and nothing makes it")
		unless $everywhere{$_} || $elsewhere{$_};
}
for my $page (@pages) {
	my $text = slurp($page);
	my %there = map { $_ => 1 } $text =~ /\*-(E[A-Z0-9]+)\*/g;
	my ($names) = $text =~ /^# NAME\n(.*?)^# /ms;
	my %want = map { %{ $of{$_} // {} } } $names =~ /mpib_\w+/g;
	for (sort keys %want) {
		complain("-$_ is in the header and not in $page")
			unless $there{$_} || $all{$_};
	}
	for (sort keys %there) {
		complain("-$_ is in $page and not in the header")
			unless $want{$_} || $all{$_};
	}
}
complain("no functions?") if $judged < 5;
exit $bad;
