#pragma once
// The pages of the project (README.md, CONTRIBUTING.md, docs/*.md), for the tests that read them.
#include <string>
#include <vector>

#include "structure/source_files.h"

namespace alpa::testing::structure {

/// README.md, CONTRIBUTING.md and docs/*.md.
std::vector<SourceFile> pages();

/// The lines of a page outside of fenced code.
std::vector<std::string> text_lines(const SourceFile& page);

/// A sentence of a page's prose, and the line on which it begins, counted from 1. Code in
/// backquotes is one word.
struct Sentence {
  std::string text;
  std::size_t line = 0;
  std::size_t words = 0;
};

/// The sentences of a page. Tables, headings, fenced and indented code are no prose. A sentence
/// ends with ".", "!" or "?", or with its paragraph or item.
std::vector<Sentence> sentences_of(const SourceFile& page);

/// A piece of code on a page: in backquotes, or a line of a fenced or indented block.
struct Code {
  std::string text;
  std::size_t line = 0;
  bool block = false;
};

/// All code of a page, in order.
std::vector<Code> code_of(const SourceFile& page);

}  // namespace alpa::testing::structure
