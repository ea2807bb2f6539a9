// Errors as values for everything under runtime/ (and for the MLIR-free parts
// that diffc links).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace diffrun {

/// What went wrong, in the terms of the tools' exit codes.
enum class ErrorCode {
  kInvalidInput, ///< the user's model, recipe, plan, data or value: exit 1
  kUsage,        ///< the command line: exit 2
  kInternal,     ///< our fault: exit 3
  kMachine,      ///< no device, CPU too old, memory, disk: exit 4
};

/// Success, or one error: a message that names the culprit (file, tensor,
/// node, key) and, where there is one, the way out as `help`.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(ErrorCode code, std::string message, std::string help = {}) {
    Status status;
    status.failure = Failure{code, std::move(message), std::move(help)};
    return status;
  }
  static Status invalid(std::string message, std::string help = {}) {
    return error(ErrorCode::kInvalidInput, std::move(message), std::move(help));
  }
  static Status usage(std::string message, std::string help = {}) {
    return error(ErrorCode::kUsage, std::move(message), std::move(help));
  }
  static Status internal(std::string message, std::string help = {}) {
    return error(ErrorCode::kInternal, std::move(message), std::move(help));
  }
  static Status machine(std::string message, std::string help = {}) {
    return error(ErrorCode::kMachine, std::move(message), std::move(help));
  }

  bool ok() const { return !failure.has_value(); }
  explicit operator bool() const { return ok(); }

  // Only for a Status that is not ok().
  ErrorCode code() const { return failure->code; }
  const std::string &message() const { return failure->message; }
  const std::string &help() const { return failure->help; }

  /// The same error with `context` in front: "context: message".
  Status withContext(const std::string &context) const {
    if (ok())
      return *this;
    return error(failure->code, context + ": " + failure->message, failure->help);
  }

private:
  struct Failure {
    ErrorCode code;
    std::string message;
    std::string help;
  };
  std::optional<Failure> failure;
};

/// A value, or the error why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::move(value)) {}
  Result(Status status) : state(std::move(status)) {}

  bool ok() const { return std::holds_alternative<T>(state); }
  explicit operator bool() const { return ok(); }

  // value() only if ok(), status() only if not.
  T &value() & { return std::get<T>(state); }
  const T &value() const & { return std::get<T>(state); }
  T &&value() && { return std::get<T>(std::move(state)); }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  Status status() const { return ok() ? Status() : std::get<Status>(state); }

private:
  std::variant<T, Status> state;
};

/// The process exit code for a status: 0, 1, 2, 3 or 4.
int exitCode(const Status &status);

/// Prints "tool: error: message" and "  help: ..." on standard error.
void report(const std::string &tool, const Status &status);

} // namespace diffrun

/// Returns from the enclosing function if `expression` (a Status) failed.
#define DIFFRUN_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                             \
    if (::diffrun::Status diffrunStatus_ = (expression); !diffrunStatus_)                          \
      return diffrunStatus_;                                                                       \
  } while (0)

#define DIFFRUN_CONCAT_INNER(a, b) a##b
#define DIFFRUN_CONCAT(a, b) DIFFRUN_CONCAT_INNER(a, b)

/// `DIFFRUN_ASSIGN(auto x, expression)`: x is the Result's value, or return its error.
#define DIFFRUN_ASSIGN(declaration, expression)                                                    \
  auto DIFFRUN_CONCAT(diffrunResult_, __LINE__) = (expression);                                    \
  if (!DIFFRUN_CONCAT(diffrunResult_, __LINE__))                                                   \
    return DIFFRUN_CONCAT(diffrunResult_, __LINE__).status();                                      \
  declaration = std::move(DIFFRUN_CONCAT(diffrunResult_, __LINE__)).value()
