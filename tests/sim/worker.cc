#include "worker.h"

#include <vector>

namespace penstock::simulation {

Task<void> Worker::Run(unsigned calls) {
  co_await MakeDirectory();
  while (calls_ < calls && findings_.empty()) co_await Act();
  if (findings_.empty()) co_await Finish();
  done_ = true;
}

void Worker::HandleCall(std::string_view what) {
  ++calls_;
  world_.Trace("{}: {}", name(), what);
}

void Worker::Expect(bool right, std::string_view what) {
  if (!right) findings_.Add("{}: {}", name(), what);
}

void Worker::Unexpected(std::string_view operation, std::string_view why) {
  findings_.Add("{}: {}: {}", name(), operation, why);
}

std::string Worker::NewName() {
  std::string name = fmt::format("{}-", names_++);
  name.append(world_.random().Below(world_.random().Chance(0.2) ? 200 : 8), 'n');
  return name;
}

std::string Worker::Text(size_t most) {
  std::string text(world_.random().Between(1, most), ' ');
  uint64_t state = world_.random().Next();
  for (char& c : text) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>('a' + (state >> 60));
  }
  return text;
}

std::pair<const std::string, Worker::Entry>* Worker::Pick(std::optional<bool> symlink) {
  std::vector<std::pair<const std::string, Entry>*> candidates;
  for (auto& entry : entries_) {
    if (!symlink || entry.second.symlink == *symlink) candidates.push_back(&entry);
  }
  return candidates.empty() ? nullptr : candidates[world_.random().Below(candidates.size())];
}

}  // namespace penstock::simulation
