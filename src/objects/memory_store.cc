#include "objects/memory_store.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace penstock::objects {

void MemoryStore::Fail(int error, bool executes, std::string prefix) {
  const std::lock_guard lock(mutex_);
  error_ = error;
  executes_ = executes;
  prefix_ = std::move(prefix);
}

void MemoryStore::BeforeReplace(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  before_replace_ = std::move(function);
}

int MemoryStore::ErrorFor(std::string_view name) const { return name.starts_with(prefix_) ? error_ : 0; }

template <class Function>
int MemoryStore::Change(const std::string& name, Function change) {
  if (before_each_) before_each_();
  const std::lock_guard lock(mutex_);
  const int error = ErrorFor(name);
  if (error != 0 && !executes_) return error;
  const int code = change();
  return code != 0 ? code : error;
}

int MemoryStore::Read(const std::string& name, Object& object) {
  if (before_each_) before_each_();
  const std::lock_guard lock(mutex_);
  if (const int error = ErrorFor(name); error != 0) return error;
  const auto found = objects_.find(name);
  if (found == objects_.end()) return -ENOENT;
  object = found->second.object;
  return 0;
}

int MemoryStore::Replace(const std::string& name, uint64_t version, std::string_view content) {
  std::function<void()> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(before_replace_, {});
  }
  if (before) before();
  return Change(name, [&] {
    const auto found = objects_.find(name);
    if ((found == objects_.end() ? 0 : found->second.object.version) != version) return -ECANCELED;
    objects_[name].object = {.content = std::string(content), .version = ++versions_};
    return 0;
  });
}

int MemoryStore::WriteAt(const std::string& name, uint64_t offset, ConstBytes octets) {
  return Change(name, [&] {
    const auto found = objects_.find(name);
    if (found == objects_.end()) return -ENOENT;
    std::string& content = found->second.object.content;
    content.resize(std::max<size_t>(content.size(), offset + octets.size()));
    CopyBytes(std::as_writable_bytes(std::span(content)).subspan(offset), octets);
    found->second.object.version = ++versions_;
    return 0;
  });
}

int MemoryStore::Remove(const std::string& name) {
  return Change(name, [&] { return objects_.erase(name), 0; });
}

int MemoryStore::SetEntry(const std::string& name, const std::string& key, std::string_view value) {
  return Change(name, [&] {
    const auto found = objects_.find(name);
    if (found == objects_.end()) return -ENOENT;
    found->second.entries[key] = value;
    found->second.object.version = ++versions_;
    return 0;
  });
}

int MemoryStore::RemoveEntry(const std::string& name, const std::string& key) {
  return Change(name, [&] {
    const auto found = objects_.find(name);
    if (found == objects_.end()) return 0;
    found->second.entries.erase(key);
    found->second.object.version = ++versions_;
    return 0;
  });
}

int MemoryStore::ListEntries(const std::string& name, std::map<std::string, std::string>& entries) {
  if (before_each_) before_each_();
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  const int error = ErrorFor(name);
  entries.clear();
  if (error == 0 && found != objects_.end()) entries = found->second.entries;
  return error;
}

int MemoryStore::ListNames(std::string_view prefix, std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  names.clear();
  for (auto each = objects_.lower_bound(prefix); each != objects_.end() && each->first.starts_with(prefix); ++each) {
    names.push_back(each->first);
  }
  return ErrorFor(prefix);
}

}  // namespace penstock::objects
