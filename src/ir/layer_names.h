#pragma once
/// Names of layers: paths through the scopes of a model, "blocks.3.attention.query". Siblings
/// without a name get their kind and a number, "dense1", counted for each kind and parent alone.
/// Thread rule: one thread, that of the Builder.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace alpa {

/// Identity of a layer, given when its scope is opened.
struct LayerIdentity {
  std::uintptr_t number = 0;  ///< unique in the process, above 0; shared by copies (weight tying)
  std::string_view kind;      ///< "dense"; the first unnamed "sequential" of a parent adds no name
  std::string_view name;      ///< its own name, a path below the parent; may be empty
};

/// The scopes of a model while it is recorded, and their paths.
class LayerNames {
 public:
  /// Opens the scope `path` below the innermost one, made at the first call. Throws Error unless
  /// its parts are letters, digits, '_' and '-', joined by '.'.
  void open(std::string_view path);
  /// Opens a layer's scope, whose path is that of its first use. Throws Error if the path is that
  /// of another layer, or its name is not a path. The layer's name must not be `taken`.
  void open(const LayerIdentity& layer);
  /// Opens a scope for people, part of the names of nodes alone: "dense0/einsum.grad".
  void open_text(std::string_view text);
  /// Closes what was opened last.
  void close();
  /// The name of layer `number`, if it opens next, has no name of its own and is new.
  void suggest(std::uintptr_t number, std::string_view name);

  /// The scope whose path the layer would get if another layer has it already; else -1.
  int rival(const LayerIdentity& layer) const;

  /// The innermost scope; -1: none.
  int innermost() const { return open_.empty() ? -1 : open_.back().scope; }
  /// The innermost scope, or -1 if a scope for people is open in it.
  int layer() const { return open_.empty() || open_.back().text_only ? -1 : open_.back().scope; }
  /// Path of a scope; "" for the model itself (-1).
  const std::string& path(int scope) const;
  /// The kind of a scope's layer.
  const std::string& kind(int scope) const { return scopes_.at(scope).kind; }
  /// Prefix of names of nodes: "" or "blocks.3.attention/".
  const std::string& prefix() const;

  /// Numbers unnamed siblings again, by the first of `uses` in them: for a scope, the earliest use
  /// of what it made itself; those without one come last. Returns new paths by old ones. Throws
  /// Error if two scopes then have one path.
  std::map<std::string, std::string> renumber(const std::map<int, int>& uses);

 private:
  struct Scope {
    int parent = -1;
    std::uintptr_t layer = 0;          ///< 0: none
    std::string kind = {}, name = {};  ///< without a name: kind and number
    int number = 0;
    std::string path = {};
  };
  struct Open {
    int scope = -1;
    bool text_only = false;
    std::string base, prefix;  ///< what texts below add; what nodes' names begin with
  };

  std::string local(const Scope& scope) const;
  std::string below(int parent, const std::string& local) const;
  std::string_view name_of(const LayerIdentity& layer) const;
  std::string path_of(const LayerIdentity& layer) const;
  int child(int parent, std::string_view name);
  int descendant(int parent, std::string_view path);
  int add(Scope scope);
  void enter(int scope);

  std::vector<Scope> scopes_;  ///< parents before children
  std::vector<Open> open_;
  std::map<std::string, int> by_path_;
  std::map<std::uintptr_t, int> of_layer_;
  std::map<std::pair<int, std::string>, int> counts_;  ///< unnamed ones, by parent and kind
  std::uintptr_t suggested_ = 0;
  std::string suggestion_;
};

}  // namespace alpa
