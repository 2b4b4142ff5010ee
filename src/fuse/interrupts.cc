#include "fuse/interrupts.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace penstock::fuse {
namespace {

// A process may be killed after another signal has interrupted it, and then the kernel says nothing more.
constexpr Duration kInterval = std::chrono::milliseconds(200);

std::string StatusOf(pid_t thread) {
  std::ifstream file(fmt::format("/proc/{}/status", thread));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool IsBeingKilled(std::string_view status) {
  constexpr std::string_view kPending = "\nSigPnd:\t";
  const size_t at = status.find(kPending);
  if (at == status.npos) return true;
  const std::string_view text = status.substr(at + kPending.size());
  uint64_t pending = 0;
  std::from_chars(text.data(), text.data() + text.size(), pending, 16);
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

Interrupts::Interrupts(Loop& loop) : loop_(loop), timer_(loop.MakeTimer([this] { Check(); })) {}

void Interrupts::HandleInterrupt(Interrupted& request) {
  if (std::ranges::find(requests_, &request) == requests_.end()) requests_.push_back(&request);
  signalled_.push_back(&request);
  timer_->ExpireAfter(Duration::zero());
}

void Interrupts::Remove(Interrupted& request) {
  std::erase(requests_, &request);
  std::erase(signalled_, &request);
}

void Interrupts::Check() {
  while (!signalled_.empty()) {
    Interrupted* const request = signalled_.back();
    signalled_.pop_back();
    request->HandleSignal();
  }
  const std::vector<Interrupted*> all = requests_;
  for (Interrupted* const request : all) {
    const bool waits = std::ranges::find(requests_, request) != requests_.end();
    // The process is in another namespace of processes: nobody knows.
    if (request->pid() == 0) continue;
    if (waits && IsBeingKilled(StatusOf(request->pid()))) request->HandleKill();
  }
  if (!requests_.empty()) timer_->ExpireAfter(kInterval);
}

}  // namespace penstock::fuse
