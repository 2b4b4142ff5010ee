// A store in memory, for tests. Several servers of one process share it, and a test makes it fail.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "objects/store.h"

namespace penstock::objects {

class MemoryStore final : public Store {
 public:
  int Read(const std::string& name, Object& object) override;
  int Replace(const std::string& name, uint64_t version, std::string_view content) override;
  int WriteAt(const std::string& name, uint64_t offset, ConstBytes octets) override;
  int Remove(const std::string& name) override;
  int SetEntry(const std::string& name, const std::string& key, std::string_view value) override;
  int RemoveEntry(const std::string& name, const std::string& key) override;
  int ListEntries(const std::string& name, std::map<std::string, std::string>& entries) override;
  int ListNames(std::string_view prefix, std::vector<std::string>& names) override;

  // From now on every method returns `error`; zero: works again. `executes`: changes are made all the same. Only calls
  // for objects whose names begin with `prefix` fail.
  void Fail(int error, bool executes = false, std::string prefix = "");
  // Calls `function` before each call, without a lock.
  void BeforeEach(std::function<void()> function) { before_each_ = std::move(function); }
  // Calls `function` before the next Replace(), without a lock: another server may come first.
  void BeforeReplace(std::function<void()> function);

 private:
  struct Kept {
    Object object;
    std::map<std::string, std::string> entries;
  };
  int ErrorFor(std::string_view name) const;
  // Runs change(), which returns zero or a negative errno, if it is executed.
  template <class Function>
  int Change(const std::string& name, Function change);

  std::mutex mutex_;
  std::map<std::string, Kept, std::less<>> objects_;
  std::function<void()> before_each_;
  std::function<void()> before_replace_;
  uint64_t versions_ = 0;
  int error_ = 0;
  bool executes_ = false;
  std::string prefix_;
};

}  // namespace penstock::objects
