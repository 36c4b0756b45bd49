#!/usr/bin/env perl
# prose.pl find: for each file named on stdin, print "FILE:LINE: PHRASE:
# SENTENCE" for each phrase of the list below. prose.pl draw N SEED: print N
# random sentences of these files.
#
# Text means Markdown and manual pages without code blocks, comments of C and
# scripts, and strings of C with at least three words.
use strict;
use warnings;

my ($mode, $n, $seed) = @ARGV;
my @phrases = (
	qr/\b(?:whoever|whomever|whom|nobody|somebody|anybody|everybody|anew)\b/i,
	qr/(?:^|[.;:] )Who\b(?![^.]*\?)/,
	qr/\b(?:of|by|for|than|from|to|with) who\b/i,
	qr{\b(?:is|are|was|were) over\b(?! (?:\d|a|an|all|both|its|several|the|this)\b)}i,
	qr/\b(?:is|are) there\b/i,
	qr/\b(?:is|are|was|were) (?:told|owed)\b/i,
	qr/\bso (?:many|much)\b(?! (?:that|as))/i,
	qr/\bof (?:now|then)\b/i,
	qr/\bt(?:akes?|ook) another way\b/i,
	qr/\b(?:and|or|of) the like\b/i,
	qr/\bhere and there\b/i,
	qr/\b(?:he|him|his)\b/i,
	qr/(?:^|[.;:] )(?:What|Whose|Of|Whether)\b(?![^.]*\?)/,
	qr/\b(?:goes?|going|went) on\b/i,
	qr/\b(?:in (?:its|their) place|in place of|but for|of before)\b/i,
	qr/\b(?:dealt out|handed (?:around|back)|hears? of|(?:is|are) through)\b/i,
	qr/\bpatience\b/i,
);

# Return the text of a file as a list of [line, paragraph].
sub paragraphs {
	my ($file) = @_;
	my (@found, $code, $open);
	my $add = sub {
		my ($text, $new) = @_;
		$text =~ s/^\s+|\s+$//g;
		push @found, [$., $text] and return if $new || !$open;
		$found[-1][1] .= " $text";
	};

	open my $in, '<', $file or die "$file: $!\n";
	local $_;
	if ($file =~ /\.(?:md|scd)$/) {
		while (<$in>) {
			$code = !$code, $open = 0, next if /^\s*```/;
			if ($code || /^\s*$|^\s*[|:\[]+[-: |]*$|^<!--/) {
				$open = 0;
				next;
			}
			$add->($_, /^#|^\s*(?:[*-]|\d+\.) |^[|:\]\[]/);
			$open = !/^[#|:\]\[]/;
		}
	} elsif ($file =~ /\.[ch]$/) {
		my $inside = 0;
		while (<$in>) {
			if (!$inside) {
				while (/"((?:[^"\\\n]|\\.)*)"/g) {
					my $text = $1;
					$open = 0;
					$add->($text, 1) if (() = $text =~ /\s/g) > 1;
				}
			}
			if (!$inside && m{/\*(.*)}) {
				my $text = $1;
				$inside = $text !~ s{\*/.*}{};
				$add->($text =~ s/^\*//r, 1);
				$open = $inside;
			} elsif ($inside) {
				my $text = $_;
				$inside = 0 if $text =~ s{\*/.*}{};
				$text =~ s/^\s*\* ?//;
				$open = 0 if $text =~ /^\s*$/;
				$add->($text) if $text =~ /\S/;
				$open = $inside && $text =~ /\S/;
			}
		}
	} else {
		while (<$in>) {
			if (/^\s*#[ \t]+(\S.*)/) {
				$add->($1);
				$open = 1;
			} else {
				$open = 0;
			}
		}
	}
	return @found;
}

my @sentences;
while (my $file = <STDIN>) {
	chomp $file;
	for (paragraphs($file)) {
		my ($line, $text) = @$_;
		next if $text =~ /^SPDX-/;
		$text =~ s/\s+/ /g;
		push @sentences, map { [$file, $line, $_] }
			$mode eq 'draw' ? split(/(?<=[.;:]) (?=[A-Z`*(])|\s*\|\s*/, $text)
			: $text =~ s/`[^`]*`|"[^"]*"/x/gr;
	}
}
if ($mode eq 'draw') {
	@sentences = grep { (() = $_->[2] =~ /\w+/g) > 4 } @sentences;
	srand $seed;
	for (1 .. $n) {
		last unless @sentences;
		my ($file, $line, $text) = @{splice @sentences, rand @sentences, 1};
		print "$file:$line: $text\n";
	}
	exit;
}
for (@sentences) {
	my ($file, $line, $text) = @$_;
	for my $phrase (@phrases) {
		while ($text =~ /($phrase)/g) {
			my $from = $-[0] > 30 ? $-[0] - 30 : 0;
			print "$file:$line: $1: ", substr($text, $from, 90), "\n";
		}
	}
}
