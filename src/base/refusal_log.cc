#include "base/refusal_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/host.h"
#include "base/log.h"

namespace penstock {
namespace {

constexpr size_t kLongestText = 600;
constexpr size_t kLongestName = 100;

std::string Printable(std::string text, size_t most) {
  if (text.size() > most) text.resize(most);
  std::ranges::replace_if(text, [](unsigned char octet) { return octet < 0x20 || octet == 0x7f; }, '?');
  return text;
}

}  // namespace

// Hosts of one network of IPv6 (HostOf()) have one line.
RefusalLog::Key RefusalLog::KeyOf(const Refusal& refusal) {
  return {.client = HostOf(Unmapped(refusal.client)),
          .reason = std::string(refusal.reason),
          .export_path = std::string(refusal.export_path)};
}

bool RefusalLog::MayLog(const Refusal& refusal, TimePoint now) {
  if (!log::Takes(log::Level::kWarn, log::Named("refusals"))) return false;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(KeyOf(refusal));
  if (found == entries_.end() || now >= found->second.again) return true;
  ++found->second.untold;
  return false;
}

// Whether one more line fits into this second. When another second begins, `left_out` gets the number of the refusals
// that had no line before.
bool RefusalLog::TakeLine(TimePoint now, uint64_t& left_out) {
  if (now - second_ >= std::chrono::seconds(1) || now < second_) {
    second_ = now;
    lines_ = 0;
    left_out += std::exchange(left_out_, 0);
  }
  if (lines_ >= limits_.lines_per_second) return false;
  ++lines_;
  return true;
}

// Entries are made at the rate of lines, so that a search among all of them costs little.
void RefusalLog::MakeRoom() {
  while (!entries_.empty() && entries_.size() >= limits_.entries) {
    const auto oldest = std::ranges::min_element(entries_, {}, [](const auto& each) { return each.second.again; });
    left_out_ += oldest->second.untold;
    entries_.erase(oldest);
  }
}

void RefusalLog::Log(const Refusal& refusal, RefusalDetails details, TimePoint now) {
  details.text = Printable(std::move(details.text), kLongestText);
  details.user = Printable(std::move(details.user), kLongestName);
  details.operation = Printable(std::move(details.operation), kLongestName);
  Line line{.key = KeyOf(refusal), .details = std::move(details)};
  uint64_t left_out = 0;
  bool is_logged = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(line.key);
    if (found != entries_.end() && now < found->second.again) {
      ++found->second.untold;  // another thread was faster
    } else if (!TakeLine(now, left_out)) {
      ++(found == entries_.end() ? left_out_ : found->second.untold);
    } else {
      if (found == entries_.end()) MakeRoom();
      Entry& entry = entries_[line.key];
      line.more = std::exchange(entry.untold, 0);
      entry.again = now + limits_.interval;
      entry.details = line.details;
      is_logged = true;
    }
  }
  WriteLeftOut(left_out);
  if (is_logged) Write(line);
}

void RefusalLog::Flush() { Flush(false); }
void RefusalLog::Finish() { Flush(true); }

void RefusalLog::Flush(bool all) {
  const TimePoint now = now_();
  std::vector<Line> lines;
  uint64_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    if (entries_.empty() && left_out_ == 0) return;
    for (auto each = entries_.begin(); each != entries_.end();) {
      Entry& entry = each->second;
      const bool is_due = all || now >= entry.again;
      if (!is_due || (entry.untold > 0 && !TakeLine(now, left_out))) {
        ++each;
        continue;
      }
      if (entry.untold == 0) {
        each = entries_.erase(each);
        continue;
      }
      lines.push_back({.key = each->first, .details = entry.details, .more = std::exchange(entry.untold, 0)});
      entry.again = now + limits_.interval;
      ++each;
    }
    if (now - second_ >= std::chrono::seconds(1) || all) left_out += std::exchange(left_out_, 0);
    if (all) {
      for (auto& [key, entry] : entries_) left_out += std::exchange(entry.untold, 0);
    }
  }
  for (const Line& each : lines) Write(each);
  WriteLeftOut(left_out);
}

void RefusalLog::Write(const Line& line) {
  const std::string client = line.key.client.to_string();
  std::string message = fmt::format("{} {}", client, line.details.text);
  const std::string& user = line.details.user;
  const std::string& operation = line.details.operation;
  if (!user.empty() || !operation.empty()) {
    message += fmt::format(" ({}{}{})", operation, user.empty() || operation.empty() ? "" : " by ", user);
  }
  if (line.more > 0) message += fmt::format(" ({} more since the last such line)", line.more);
  std::vector<log::Field> fields{{.key = "client", .value = client}, {.key = "reason", .value = line.key.reason}};
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) fields.push_back({.key = key, .value = value});
  };
  add("export", line.key.export_path);
  add("user", user);
  add("operation", operation);
  const std::string more = line.more > 0 ? fmt::format("{}", line.more) : std::string();
  add("more", more);
  log::Write(log::Level::kWarn, log::Named("refusals"), message, fields);
}

void RefusalLog::WriteLeftOut(uint64_t left_out) const {
  if (left_out == 0) return;
  const std::string message = fmt::format("{} more refusals are not in the log: it takes {} lines in a second",
                                          left_out, limits_.lines_per_second);
  const std::string more = fmt::format("{}", left_out);
  const log::Field fields[] = {{.key = "reason", .value = "too_many"}, {.key = "more", .value = more}};
  log::Write(log::Level::kWarn, log::Named("refusals"), message, fields);
}

}  // namespace penstock
