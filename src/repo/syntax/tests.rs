use super::*;

#[test]
fn dump_counts() {
    let Ok(list) = std::env::var("TETHER_PARSE_LIST") else {
        return;
    };
    let mut total = 0usize;
    let mut lines = 0usize;
    let t0 = std::time::Instant::now();
    let mut spent = std::time::Duration::ZERO;
    let mut out = String::new();
    for path in std::fs::read_to_string(list).unwrap().lines() {
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        let t = std::time::Instant::now();
        let ast = parse(&text, &Region::whole(&text));
        spent += t.elapsed();
        lines += text.bytes().filter(|&b| b == b'\n').count();
        total += ast.n_bytes();
        let count = |f: &dyn Fn(&ExprKind) -> bool| ast.exprs.iter().filter(|e| f(&e.kind)).count();
        out.push_str(&format!(
            "{path}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            ast.functions.len(),
            ast.classes.len(),
            count(&|k| matches!(k, ExprKind::Attribute { .. })),
            count(&|k| matches!(k, ExprKind::Name(_))),
            count(&|k| matches!(k, ExprKind::Call { .. })),
            count(&|k| matches!(k, ExprKind::Comp { .. })),
            count(&|k| matches!(k, ExprKind::Lambda { .. })),
            ast.stmts.len(),
            ast.errors.first().map_or(String::new(), |e| format!(
                "{} {}",
                e.message,
                text[..e.span.start as usize].matches('\n').count() + 1
            )),
        ));
    }
    eprintln!(
        "{lines} lines, {} bytes/line, parse {:?} = {:.0} lines/s, all {:?}",
        total / lines.max(1),
        spent,
        lines as f64 / spent.as_secs_f64(),
        t0.elapsed()
    );
    std::fs::write(std::env::var("TETHER_PARSE_OUT").unwrap(), out).unwrap();
}
