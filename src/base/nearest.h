// Finds the word that a user may have meant.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace penstock {

// Returns the number of letters to insert, remove or replace until `a` is `b`.
size_t Distance(std::string_view a, std::string_view b);

// Returns the word that differs from `text` in at most two letters and in at most half of its own, the nearest one.
// Returns an empty string if there is none.
std::string_view Nearest(std::string_view text, std::span<const std::string_view> words);

}  // namespace penstock
