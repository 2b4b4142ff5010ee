#include "cli/bench_operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace penstock::cli {
namespace {

struct KindName {
  std::string_view name;
  Operation::Kind kind;
};
constexpr KindName kKinds[] = {
    {"null", Operation::Kind::kNull},
    {"getattr", Operation::Kind::kGetAttributes},
    {"setattr", Operation::Kind::kSetAttributes},
    {"lookup", Operation::Kind::kLookup},
    {"stat", Operation::Kind::kStat},
    {"readdir", Operation::Kind::kReadDirectory},
    {"open", Operation::Kind::kOpen},
    {"create", Operation::Kind::kCreate},
    {"remove", Operation::Kind::kRemove},
    {"rename", Operation::Kind::kRename},
    {"mkdir", Operation::Kind::kMakeDirectory},
    {"read", Operation::Kind::kRead},
    {"write", Operation::Kind::kWrite},
    {"mix", Operation::Kind::kMix},
};

struct OrderName {
  std::string_view prefix;
  Operation::Order order;
};
constexpr OrderName kOrders[] = {
    {"seq", Operation::Order::kSequential}, {"rand", Operation::Order::kRandom}, {"", Operation::Order::kUsual}};

// Parses "4k" or "1m". Returns nothing if the size is malformed, zero or too large.
std::optional<uint32_t> SizeOf(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const uint32_t unit = text.back() == 'k' ? 1 << 10 : text.back() == 'm' ? 1 << 20 : 0;
  text.remove_suffix(1);
  uint32_t count = 0;
  const auto [rest, error] = std::from_chars(text.begin(), text.end(), count);
  if (unit == 0 || error != std::errc() || rest != text.end() || count == 0 || count > kLargestOperation / unit) {
    return std::nullopt;
  }
  return count * unit;
}

}  // namespace

bool Operation::is_sequential() const {
  return order == Order::kSequential || (order == Order::kUsual && size == kLargestOperation);
}

std::string NameOf(Operation operation) {
  const std::string_view kind = std::ranges::find(kKinds, operation.kind, &KindName::kind)->name;
  if (!operation.has_size()) return std::string(kind);
  const std::string_view order = std::ranges::find(kOrders, operation.order, &OrderName::order)->prefix;
  const bool is_whole = operation.size % (1 << 20) == 0;
  return fmt::format("{}{}{}{}", order, kind, operation.size >> (is_whole ? 20 : 10), is_whole ? 'm' : 'k');
}

std::optional<Operation> OperationOf(std::string_view name) {
  const OrderName& order =
      *std::ranges::find_if(kOrders, [&](const OrderName& each) { return name.starts_with(each.prefix); });
  const std::string_view text = name.substr(order.prefix.size());
  for (const KindName& each : kKinds) {
    if (text == each.name && !Operation{each.kind}.has_size()) {
      return order.prefix.empty() ? std::optional(Operation{each.kind}) : std::nullopt;
    }
    if (!text.starts_with(each.name) || !Operation{each.kind}.has_size()) continue;
    if (const auto size = SizeOf(text.substr(each.name.size()))) return Operation{each.kind, *size, order.order};
  }
  return std::nullopt;
}

}  // namespace penstock::cli
