#include "idmap/mapper.h"

#include <limits>
#include <utility>

#include "idmap/owner_text.h"

namespace penstock::idmap {

Task<Result<std::string, NoAnswer>> Mapper::TextOf(Kind kind, uint32_t id, Caller& caller) const {
  if (has_names()) {
    Query query{.kind = kind, .of = id};
    const Answer answer = co_await lookups_->Find(std::move(query), caller);
    if (!answer) co_return std::unexpected(answer.error());
    co_return TextOf(*answer, id);
  }
  co_return std::to_string(id);
}

std::optional<std::string> Mapper::KnownTextOf(Kind kind, uint32_t id) const {
  if (!has_names()) return std::to_string(id);
  const auto known = lookups_->Known({.kind = kind, .of = id});
  if (!known) return std::nullopt;
  return TextOf(*known, id);
}

std::string Mapper::TextOf(const std::optional<Account>& account, uint32_t id) const {
  if (account) {
    if (auto text = OwnerText(account->name, domain_)) return *std::move(text);
  }
  return std::to_string(id);
}

Task<Result<std::optional<uint32_t>, NoAnswer>> Mapper::IdOf(Kind kind, std::string_view text, bool accepts_numbers,
                                                             Caller& caller) const {
  if (const auto number = NumberIn(text); number && accepts_numbers) co_return number;
  const auto name = NameIn(text, domain_);
  if (!name || !has_names()) co_return std::nullopt;
  Query query{.kind = kind, .of = std::string(*name)};
  const Answer answer = co_await lookups_->Find(std::move(query), caller);
  if (!answer) co_return std::unexpected(answer.error());
  // 2^32 - 1 is no id.
  if (!*answer || (*answer)->id == std::numeric_limits<uint32_t>::max()) co_return std::nullopt;
  co_return (*answer)->id;
}

}  // namespace penstock::idmap
