//! nginx, as a child process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::net::TcpStream;

use crate::process::{ChildProcess, Folder};
use crate::test_server::wait_until;

/// A running nginx. Stopped when dropped.
pub(crate) struct Nginx {
    _process: ChildProcess,
    _folder: Folder,
}

impl Nginx {
    /// Checks and starts nginx with the configuration that `configure` writes for its folder. Waits until it listens at
    /// all `addresses`, of which the first names the folder.
    pub(crate) async fn start(
        addresses: &[SocketAddr],
        configure: impl FnOnce(&Path) -> String,
    ) -> Self {
        let folder = Folder::new(&format!("nginx-{}", addresses[0].port()));
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, configure(folder.path())).unwrap();
        let command = || {
            let mut command = Command::new("nginx");
            // Debian installs nginx in a folder that is not in every PATH.
            command.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin");
            command.args(["-e", "stderr", "-p"]).arg(folder.path()).arg("-c").arg(&file);
            command
        };
        let checked = command().arg("-t").output();
        let checked = checked.expect("nginx is needed (Debian: apt-get install nginx)");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let mut run = command();
        run.args(["-g", "daemon off; master_process off;"]).stderr(Stdio::null());
        let process = ChildProcess(run.spawn().unwrap());
        for address in addresses {
            let what = format!("nginx listens on {address}");
            wait_until(&what, async || TcpStream::connect(address).await.is_ok()).await;
        }
        Self { _process: process, _folder: folder }
    }
}

/// Returns a configuration with this in its `http` section. All its files are in the folder of nginx.
pub(crate) fn configuration(http: &str) -> String {
    format!(
        "pid nginx.pid; error_log stderr; events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n{http} }}\n"
    )
}
