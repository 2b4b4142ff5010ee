#include "fuse/interrupts.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace penstock::fuse {
namespace {

// A process may be killed after another signal has interrupted it, and then the kernel says nothing more.
constexpr Duration kInterval = std::chrono::milliseconds(200);

std::string Read(pid_t thread, std::string_view name) {
  std::ifstream file(fmt::format("/proc/{}/{}", thread, name));
  return {std::istreambuf_iterator<char>(file), {}};
}

bool HasKill(std::string_view status, std::string_view field) {
  const size_t at = status.find(field);
  if (at == status.npos) return false;
  const std::string_view text = status.substr(at + field.size());
  uint64_t pending = 0;
  std::from_chars(text.data(), text.data() + text.size(), pending, 16);
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

// The flags of the kernel's task (proc(5), linux/sched.h): the seventh number behind the name.
uint32_t FlagsOf(std::string_view stat) {
  const size_t name = stat.rfind(')');
  if (name == stat.npos) return 0;
  std::istringstream fields{std::string(stat.substr(name + 1))};
  std::string skipped;
  for (int i = 0; i < 6; ++i) fields >> skipped;
  uint32_t flags = 0;
  fields >> flags;
  return flags;
}

}  // namespace

bool IsBeingKilled(std::string_view status, std::string_view stat) {
  constexpr uint32_t kSignaled = 0x400;  // PF_SIGNALED
  if (status.empty()) return true;
  return HasKill(status, "\nSigPnd:\t") || HasKill(status, "\nShdPnd:\t") || (FlagsOf(stat) & kSignaled) != 0;
}

Interrupts::Interrupts(Loop& loop) : timer_(loop.MakeTimer([this] { Check(); })) {}

void Interrupts::CheckAfter(Duration delay) {
  if (std::exchange(waits_, true) && delay > Duration::zero()) return;
  timer_->ExpireAfter(delay);
}

void Interrupts::HandleInterrupt(Interrupted& request) {
  if (std::ranges::find(requests_, &request) == requests_.end()) requests_.push_back(&request);
  signalled_.push_back(&request);
  CheckAfter(Duration::zero());
}

void Interrupts::Watch(Interrupted& request) {
  if (std::ranges::find(requests_, &request) == requests_.end()) requests_.push_back(&request);
  CheckAfter(kInterval);
}

void Interrupts::Remove(Interrupted& request) {
  std::erase(requests_, &request);
  std::erase(signalled_, &request);
}

void Interrupts::Check() {
  waits_ = false;
  while (!signalled_.empty()) {
    Interrupted* const request = signalled_.back();
    signalled_.pop_back();
    request->HandleSignal();
  }
  const std::vector<Interrupted*> all = requests_;
  for (Interrupted* const request : all) {
    // Zero: the process is in another namespace, and nobody knows.
    const bool waits = request->pid() != 0 && std::ranges::find(requests_, request) != requests_.end();
    const pid_t thread = request->pid();
    if (waits && IsBeingKilled(Read(thread, "status"), Read(thread, "stat"))) request->HandleKill();
  }
  if (!requests_.empty()) CheckAfter(kInterval);
}

}  // namespace penstock::fuse
