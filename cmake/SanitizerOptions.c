/* Linked into every executable of a sanitizer build. LLVM's allocators poison memory in their headers, that is in Forebay's instrumented
   code, and unpoison it in code that Debian's LLVM was built without: only Forebay's own accesses can be checked. */
const char *__asan_default_options(void) { return "allow_user_poisoning=0"; }
