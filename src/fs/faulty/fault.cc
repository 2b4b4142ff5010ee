#include "fs/faulty/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>
#include <string>

namespace penstock::fs::faulty {
namespace {

constexpr std::array kErrors{
    std::pair{std::string_view("eacces"), Error::kAccess},    std::pair{std::string_view("edquot"), Error::kQuota},
    std::pair{std::string_view("efbig"), Error::kFileTooBig}, std::pair{std::string_view("eio"), Error::kIo},
    std::pair{std::string_view("emfile"), Error::kDelay},     std::pair{std::string_view("enoent"), Error::kNoEnt},
    std::pair{std::string_view("enospc"), Error::kNoSpace},   std::pair{std::string_view("eperm"), Error::kPerm},
    std::pair{std::string_view("erofs"), Error::kReadOnly},   std::pair{std::string_view("estale"), Error::kStale},
};
constexpr std::array kUnits{
    std::pair{std::string_view("us"), Duration(std::chrono::microseconds(1))},
    std::pair{std::string_view("ms"), Duration(std::chrono::milliseconds(1))},
    std::pair{std::string_view("s"), Duration(std::chrono::seconds(1))},
};
constexpr double kLongestSeconds = 3600;

template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::unexpected<SetupError> Wrong(std::string_view item, std::string_view why) {
  return std::unexpected(SetupError{fmt::format("fault \"{}\": {}", item, why)});
}

// The names on the left or right side of a table, for a message.
template <class Table, class Projection>
std::string ListNames(const Table& table, Projection name) {
  std::string text;
  for (const auto& entry : table) text += fmt::format("{}{}", text.empty() ? "" : ", ", std::invoke(name, entry));
  return text;
}

std::optional<Duration> ParseDuration(std::string_view text) {
  const size_t unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = std::ranges::find(kUnits, text.substr(unit_at), [](const auto& each) { return each.first; });
  const auto count = ParseNumber<double>(text.substr(0, unit_at));
  if (unit == kUnits.end() || !count) return std::nullopt;
  const auto seconds = std::chrono::duration<double>(*count * std::chrono::duration<double>(unit->second).count());
  if (seconds.count() <= 0 || seconds.count() > kLongestSeconds) return std::nullopt;
  return std::chrono::duration_cast<Duration>(seconds);
}

SetupResult<When> ParseWhen(std::string_view item, std::string_view text) {
  if (text.empty()) return When{};
  const std::string_view value = text.substr(1);
  if (text.front() == '%') {
    const auto probability = ParseNumber<double>(value);
    if (!probability || !(*probability > 0 && *probability <= 1)) {
      return Wrong(item, fmt::format("\"{}\" is not a probability above 0 and up to 1", value));
    }
    return AtRandom(*probability);
  }
  const auto n = ParseNumber<uint64_t>(value);
  if (!n || *n == 0) return Wrong(item, fmt::format("\"{}\" is not a number of calls from 1 on", value));
  return When{.kind = text.front() == '@' ? When::Kind::kNth : When::Kind::kEachNth, .n = *n};
}

SetupResult<Effect> ParseEffect(std::string_view item, std::string_view text) {
  constexpr std::string_view kAfter = "-after";
  const bool after = text.ends_with(kAfter);
  if (after) text.remove_suffix(kAfter.size());
  const Effect::Moment moment = after ? Effect::Moment::kAfter : Effect::Moment::kBefore;
  if (const auto found = std::ranges::find(kErrors, text, [](const auto& each) { return each.first; });
      found != kErrors.end()) {
    return FailWith(found->second, moment);
  }
  if (text == "hang") return Effect{.kind = Effect::Kind::kHang, .moment = moment};
  if (text.starts_with("slow=")) {
    const bool at_random = text.substr(5).starts_with("..");
    const auto delay = ParseDuration(text.substr(at_random ? 7 : 5));
    if (!delay) {
      return Wrong(item, fmt::format("\"{}\" is not a time such as slow=2s or slow=..500ms, up to an hour", text));
    }
    return Effect{.kind = Effect::Kind::kSlow, .moment = moment, .delay = *delay, .random_delay = at_random};
  }
  if (after) return Wrong(item, "-after applies to errors, slow and hang");
  if (text == "kill") return Kill();
  if (text == "unreadable") return Unreadable();
  if (text == "short") return Short(1);
  if (text.starts_with("short=")) {
    const auto at_most = ParseNumber<uint32_t>(text.substr(6));
    if (!at_most || *at_most == 0) {
      return Wrong(item, fmt::format("\"{}\" is not a number of octets from 1 on", text.substr(6)));
    }
    return Short(*at_most);
  }
  return Wrong(
      item, fmt::format("unknown effect \"{}\"; write slow=TIME, short[=OCTETS], unreadable, hang, kill or one of {}",
                        text, ListNames(kErrors, [](const auto& each) { return each.first; })));
}

SetupResult<Fault> ParseFault(std::string_view item) {
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos) return Wrong(item, "write OPERATION:EFFECT[@N|/N|%P], for example write:eio@3");
  Fault fault;
  if (const std::string_view name = item.substr(0, colon); name != "any") {
    const auto found = std::ranges::find(kOperationNames, name, [](const auto& each) { return each.second; });
    if (found == kOperationNames.end()) {
      return Wrong(item, fmt::format("unknown operation \"{}\"; write any or one of {}", name,
                                     ListNames(kOperationNames, [](const auto& each) { return each.second; })));
    }
    fault.operation = found->first;
  }
  const size_t when_at = std::min(item.find_first_of("@/%", colon), item.size());
  PENSTOCK_TRY(fault.effect, ParseEffect(item, item.substr(colon + 1, when_at - colon - 1)));
  PENSTOCK_TRY(fault.when, ParseWhen(item, item.substr(when_at)));
  using enum Operation;
  const bool moves_data =
      !fault.operation || *fault.operation == kRead || *fault.operation == kWrite || *fault.operation == kCopy;
  if (fault.effect.kind == Effect::Kind::kShort && !moves_data) {
    return Wrong(item, "short applies to read, write and copy");
  }
  if (fault.effect.kind == Effect::Kind::kUnreadable && fault.operation.value_or(kRead) != kRead) {
    return Wrong(item, "unreadable applies to read");
  }
  return fault;
}

}  // namespace

SetupResult<std::vector<Fault>> ParseFaults(std::string_view text) {
  if (text.empty()) return Wrong(text, "it is empty");
  std::vector<Fault> faults;
  for (const auto item : std::views::split(text, ',')) {
    PENSTOCK_TRY(Fault fault, ParseFault(std::string_view(item)));
    faults.push_back(fault);
  }
  return faults;
}

}  // namespace penstock::fs::faulty
