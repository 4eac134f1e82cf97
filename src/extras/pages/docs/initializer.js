// Shows openapi.json with Swagger UI.

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const applyScheme = () => document.documentElement.classList.toggle("dark-mode", darkScheme.matches);
darkScheme.addEventListener("change", applyScheme);
applyScheme();

const banner = document.getElementById("banner");
try {
    const response = await fetch("openapi.json");
    if (!response.ok) throw new Error(`status ${response.status}`);
    const spec = await response.json();
    document.title = `${spec.info.title} – API`;
    // Requests go to where the page came from: a proxy may serve it below a path that the document does not name.
    spec.servers = [{ url: new URL(".", location.href).href }];
    // The document is the same for all chains. The page offers those of this service.
    const chains = await fetch("v1/chains");
    const { "path.chain": parameter } = spec.components.parameters;
    if (chains.ok && parameter) parameter.schema.enum = (await chains.json()).map(({ chain }) => chain);
    SwaggerUIBundle({ spec, dom_id: "#swagger-ui", deepLinking: true, tryItOutEnabled: true, docExpansion: "list" });
    banner.remove();
} catch (error) {
    banner.textContent = `The document could not be loaded: ${error.message}`;
}
