#include "idmap/local_owners.h"

#include <optional>

#include "idmap/owner_text.h"

namespace penstock::idmap {

Task<std::optional<Account>> LocalOwners::Find(Kind kind, const std::string& text) {
  Query query{.kind = kind, .of = uint32_t{0}};
  if (const auto number = NumberIn(text)) {
    query.of = *number;
  } else if (const auto name = NameIn(text, domain_)) {
    query.of = std::string(*name);
  } else {
    co_return std::nullopt;
  }
  Answer answer = co_await lookups_.Find(std::move(query), caller_);
  if (!answer) co_return std::nullopt;
  co_return *std::move(answer);
}

Task<std::string> LocalOwners::NameOf(Kind kind, std::string text) {
  const std::optional<Account> account = co_await Find(kind, text);
  co_return account ? account->name : std::move(text);
}

Task<std::string> LocalOwners::NumberOf(Kind kind, std::string text) {
  if (NumberIn(text)) co_return text;
  const std::optional<Account> account = co_await Find(kind, text);
  co_return account ? std::to_string(account->id) : std::move(text);
}

}  // namespace penstock::idmap
