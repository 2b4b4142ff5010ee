#include "base/nearest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace penstock {

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::string_view Nearest(std::string_view text, std::span<const std::string_view> words) {
  std::string_view best;
  size_t least = 3;  // more letters make another word
  for (const std::string_view word : words) {
    const size_t distance = Distance(text, word);
    if (distance >= std::min(least, word.size() / 2 + 1)) continue;
    best = word;
    least = distance;
  }
  return best;
}

}  // namespace penstock
