#include "idmap/database.h"

namespace penstock::idmap {
namespace {

template <class T>
Answer ToAnswer(const Found<T>& found, uint32_t T::* id) {
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  return Account{.name = (*found)->name, .id = (**found).*id};
}

}  // namespace

Answer AskHost(const Query& query) {
  const auto* id = std::get_if<uint32_t>(&query.of);
  const auto* name = std::get_if<std::string>(&query.of);
  if (query.kind == Kind::kUser) return ToAnswer(id ? FindUser(*id) : FindUserNamed(*name), &User::uid);
  return ToAnswer(id ? FindGroup(*id) : FindGroupNamed(*name), &Group::gid);
}

}  // namespace penstock::idmap
