//! One script made of the modules of a page. A browser would learn of each module from another one, and load six at a time.

/// File name and text of a module. Its imports are `import { … } from "./FILE";`, its exports begin a line.
pub(super) type Module = (&'static str, &'static str);

/// Joins the module `entry` and those that it imports, each after its own imports.
pub(super) fn join(entry: &'static str, modules: &[Module]) -> String {
    let mut lines = vec!["const modules = {};".to_owned()];
    add(entry, modules, &mut Vec::new(), &mut lines);
    lines.join("\n")
}

/// Adds a module as a function that runs once and returns its exports. `files` are those that have been added.
fn add(
    file: &'static str,
    modules: &[Module],
    files: &mut Vec<&'static str>,
    lines: &mut Vec<String>,
) {
    let module = modules.iter().find(|(name, _)| *name == file && !files.contains(name));
    let Some((_, module)) = module else { return };
    files.push(file);
    for imported in module.lines().filter_map(imported_file) {
        add(imported, modules, files, lines);
    }
    let mut exports = Vec::new();
    lines.push(format!("modules[\"{file}\"] = (() => {{"));
    for line in module.lines() {
        let declaration = line.strip_prefix("export ");
        exports.extend(declaration.and_then(declared_name));
        let line = declaration.unwrap_or(line);
        let line = if line.starts_with("import {") {
            line.replacen("import", "const", 1)
        } else {
            line.to_owned()
        };
        lines.push(match imported_file(&line) {
            Some(file) => {
                line.replace(&format!("from \"./{file}\""), &format!("= modules[\"{file}\"]"))
            }
            None => line,
        });
    }
    lines.push(format!("return {{ {} }};\n}})();", exports.join(", ")));
}

/// Returns the file that an import names at the end of a line.
fn imported_file(line: &str) -> Option<&str> {
    line.split_once("} from \"./")?.1.strip_suffix("\";")
}

/// Returns the name that a declaration declares.
fn declared_name(declaration: &str) -> Option<&str> {
    let mut words =
        declaration.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.find(|word| !["async", "function", "class", "const"].contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extras::pages::MODULES;

    #[test]
    fn the_script_has_every_module_after_those_that_it_imports() {
        let script = join("page.js", &MODULES);
        let mut files = Vec::new();
        for line in script.lines() {
            assert!(!line.starts_with("import ") && !line.starts_with("export "), "{line}");
            let rest = line.split_once("modules[\"").map(|(_, rest)| rest);
            match rest.and_then(|rest| rest.split_once("\"]")) {
                Some((file, " = (() => {")) => files.push(file),
                Some((file, ";")) => assert!(files.contains(&file), "{line}"),
                _ => {}
            }
        }
        let mut all = MODULES.map(|(file, _)| file);
        files.sort_unstable();
        all.sort_unstable();
        assert_eq!(files, all);
    }
}
